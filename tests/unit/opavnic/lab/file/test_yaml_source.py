"""Whatever YAML can write, a file is right, or each mistake is one line with its place; and none fills the memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from opavnic.lab.file import yaml_source
from opavnic.lab.file.em_file import load_em_file
from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.yaml_source import MAX_NODES, YamlError, YamlSource

EXAMPLES = Path(__file__).parents[5] / "examples"
LAB_FILES = (
    "two-hosts.yaml",
    "two-switches.yaml",
    "em-lab.yaml",
    "ejfat.yaml",
    "lnet-bonding.yaml",
    "host-vnic.yaml",
)
EM_FILES = ("em-gateway.yaml", "em-one-switch.yaml", "em-qos.yaml", "em-two-tenants.yaml")

LAB = "name: {}\nhosts: {{h1: {{}}}}\nvesws: []\n"


def lab_mistakes(text: str) -> tuple[str, ...]:
    """Return what is wrong with a lab file; anything but ConfigError is a bug."""
    try:
        parse_lab(text, "lab.yaml")
    except ConfigError as error:
        return error.problems
    return ()


def em_mistakes(directory: Path, text: str) -> tuple[str, ...]:
    """Return what is wrong with an EM file; anything but ConfigError is a bug."""
    file = directory / "em.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        json.loads(load_em_file(file)[0].model_dump_json())
    except ConfigError as error:
        return tuple(line.replace(str(file), "em.yaml") for line in error.problems)
    return ()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("!!timestamp foo", '"foo" is not a date'),
        ("2001-99-99", '"2001-99-99" is not a date'),
        ("!!bool foo", '"foo" is not true or false'),
        ('!!int ""', '"" is not a whole number'),
        ("!!int 0x", '"0x" is not a whole number'),
        ('!!float ""', '"" is not a number'),
        ("9" * 5000, "a number of 5000 digits"),
        ("!!binary Zm9v", "the tag !!binary is not supported here; remove it"),
        ("!!set {a}", "the tag !!set is not supported here; remove it"),
        ("!!omap [a: 1]", "the tag !!omap is not supported here; remove it"),
        ("!!python/object:os.system x", "the tag !!python/object:os.system is not supported here; remove it"),
        ("!foo bar", "the tag !foo is not supported here; remove it"),
    ],
)
def test_tag_that_claims_what_a_value_is_not_is_one_line(tmp_path: Path, value: str, problem: str) -> None:
    assert lab_mistakes(LAB.format(value)) == (f"lab.yaml:1: name: {problem}",)
    assert em_mistakes(tmp_path, f"vesws:\n- name: {value}\n") == (f"em.yaml:2: vesws[0].name: {problem}",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\n? !!timestamp foo\n: 1\n", 'lab.yaml:2: "foo" is not a date'),
        (f"name: x\n? {'9' * 101}\n: 1\n", "lab.yaml:2: : a number of 101 digits"),
        (
            "name: x\nhosts:\n  ? [1, 2]\n  : {}\n",
            "lab.yaml:3: hosts: a sequence cannot be a key: a key is a word",
        ),
        (
            "name: x\n<<: 3\n",
            "lab.yaml:2: not YAML: expected a mapping or list of mappings for merging, but found scalar",
        ),
        ("a: &a {<<: *a}\n", "lab.yaml:1: a: an alias that contains itself"),
        (
            'name: "\0"\n',
            "lab.yaml:1: not YAML: the character 0x00 cannot stand in it",
        ),
        ("a: 1\nb: " + "[" * 1_000_000, "lab.yaml:2: not YAML: nested too deeply"),
        (f"name: !{'x' * 5000} y\n", "lab.yaml:1: name: the tag !xxx"),
        (f"name: *{'x' * 5000}\n", "lab.yaml:1: not YAML: found undefined alias"),
    ],
)
def test_text_that_only_yaml_understands_is_one_short_line(text: str, problem: str) -> None:
    (said,) = lab_mistakes(text)
    assert said.startswith(problem)
    assert len(said) < 400


def test_files_of_the_largest_size_are_counted_before_they_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    monkeypatch.setattr(yaml.SafeLoader, "compose_node", lambda *_: built.append(1))
    for text in ("a: [" + "1, " * MAX_NODES + "]\n", "".join(f"k{n}: {{a: 1}}\n" for n in range(MAX_NODES))):
        with pytest.raises(YamlError, match=f"more than {MAX_NODES} values: this is not a lab file"):
            YamlSource(text, "lab file")
    assert not built


def test_keys_are_no_values_and_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: 1\nb: [1, 2]\nc: {d: 1, e: {}}\n"  # the file itself is a value too
    monkeypatch.setattr(yaml_source, "MAX_NODES", 8)
    assert YamlSource(text, "lab file").data == {"a": 1, "b": [1, 2], "c": {"d": 1, "e": {}}}
    with pytest.raises(YamlError, match="4: more than 8 values"):
        YamlSource(text + "f: 2\n", "lab file")


def test_values_are_counted_without_the_fast_parser_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_source, "_COUNTER", None)
    monkeypatch.setattr(yaml_source, "MAX_NODES", 20)
    with pytest.raises(YamlError, match="more than 20 values"):
        YamlSource("a: [" + "1, " * 20 + "]\n", "lab file")


TAGS = ["", "!!str ", "!!int ", "!!float ", "!!bool ", "!!null ", "!!timestamp ", "!!binary ", "!!set ", "!!omap ",
        "!!pairs ", "!!map ", "!!seq ", "!!merge ", "!!value ", "!!python/name:os ", "!x ", "&a ", "*a #"]  # fmt: skip
WORDS = ["", "x", "h1", "all", "~", "<<", "=", "0", "-1", "0x", "0x1f", "1:99", "1e9", ".inf", ".nan", "2001-02-30",
         "0b", '""', '"\\0"', '"\\ud83d"', "'é'", "300ns", "10.0.0.0/8", "1_0", "|", "? x", "9" * 120]  # fmt: skip
SCALARS = st.tuples(st.sampled_from(TAGS), st.sampled_from(WORDS) | st.text(max_size=5)).map("".join)
KEYS = st.sampled_from(
    ["id", "name", "members", "h1", "kind", "netns", "subnet", "rate", "lnet", "options", "mtu", "<<"]
)
VALUES: st.SearchStrategy[str] = st.recursive(
    SCALARS,
    lambda inner: st.tuples(
        st.sampled_from(TAGS),
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(KEYS | SCALARS, inner), max_size=3).map(
            lambda items: f"{{{', '.join(f'{key}: {value}' for key, value in items)}}}"
        ),
    ).map("".join),
    max_leaves=8,
)
LAB_KEYS = ["name", "hosts", "vesws", "fabric", "em", "icrc", "faults", "apps", "seed", "datapath"]
EM_KEYS = ["fabric", "mac", "trap", "polling", "limits", "election", "vesws"]


def one_line_each(mistakes: tuple[str, ...], name: str) -> bool:
    return all(line.startswith(f"{name}:") for line in mistakes)


@given(st.sampled_from(LAB_KEYS), VALUES)
def test_any_yaml_in_a_lab_file_is_right_or_has_a_line_for_each_mistake(key: str, value: str) -> None:
    parts = {"name": "x", "hosts": "{h1: {}}"} | {key: value}
    text = "".join(f"{name}: {part}\n" for name, part in parts.items())
    assert one_line_each(lab_mistakes(text), "lab.yaml"), text


@given(st.sampled_from(EM_KEYS), VALUES)
def test_any_yaml_in_an_em_file_is_right_or_has_a_line_for_each_mistake(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: str
) -> None:
    parts = {"vesws": "[{id: 1, name: x}]"} | {key: value}
    text = "".join(f"{name}: {part}\n" for name, part in parts.items())
    assert one_line_each(em_mistakes(tmp_path_factory.getbasetemp(), text), "em.yaml"), text


@st.composite
def mutated(draw: st.DrawFn, names: tuple[str, ...]) -> str:
    """Return an example file with some words of it replaced, doubled or taken out."""
    text = (EXAMPLES / draw(st.sampled_from(names))).read_text()
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(SCALARS | st.just(text[start:end] * 2)) + text[end:]
    return text


@given(mutated(LAB_FILES))
def test_any_change_of_an_example_is_right_or_has_a_line_for_each_mistake(text: str) -> None:
    assert one_line_each(lab_mistakes(text), "lab.yaml"), text


@given(mutated(EM_FILES))
def test_any_change_of_an_em_example_is_right_or_has_a_line_for_each_mistake(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    assert one_line_each(em_mistakes(tmp_path_factory.getbasetemp(), text), "em.yaml"), text
