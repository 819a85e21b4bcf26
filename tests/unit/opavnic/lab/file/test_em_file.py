"""EM files: the examples are right, mistakes are pointed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from opavnic.lab.file.em_file import load_em_file
from opavnic.lab.file.errors import ConfigError

EXAMPLES = Path(__file__).parents[5] / "examples"
FILES = [file for file in sorted(EXAMPLES.glob("em-*.yaml")) if file.name != "em-lab.yaml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_example_is_right(file: Path) -> None:
    assert load_em_file(file)[0].vesws


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vesws:\n  - {id: 0, name: a}\n", ":2: vesws[0].id: should be greater than or equal to 1, not 0"),
        ("mac: learn\nmac: learn\n", 'key "mac" appears twice'),
        ("- 1\n", ":1: an EM file is a mapping"),
        ("a: [\n", ": not YAML"),
        ("vesws: 3\n", ":1: vesws: should be a list such as [{id: 2, name: blue, members: [h1, h2]}], not 3"),
        ("vesws: [3]\n", ":1: vesws[0]: should be a mapping, not 3"),
        (f"vesws: [{'1, ' * 100_001}]\n", ":1: more than 100000 values: this is not an EM file"),
    ],
)
def test_mistake_is_pointed_at(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "em.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_em_file(file)
    assert expected in str(caught.value)


def test_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_em_file(tmp_path / "none.yaml")
