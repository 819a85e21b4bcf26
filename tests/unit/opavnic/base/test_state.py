"""What all models of a lab's state have in common."""

from __future__ import annotations

import json

import pytest

from opavnic.base.state import StateModel


class Named(StateModel):
    """A state with a name."""

    name: str


class Lab(StateModel):
    """A state with states in it."""

    file: str
    hosts: tuple[Named, ...]


def test_bytes_of_names_that_are_no_utf8_pass_from_process_to_process() -> None:
    lab = Lab(file=b"/tmp/l\xffab.yaml".decode(errors="surrogateescape"), hosts=(Named(name="h\udc80"),))
    assert Lab.of_json(lab.as_text().encode()) == lab
    assert Lab.of_json(json.dumps(lab.as_json()).encode()) == lab


@pytest.mark.parametrize(
    "data", [b"", b"{", b'"\\udcff"', b'{"name": 5}', b'{"file": "\\udcff"}', b"[]", b"\xff"]
)
def test_other_json_is_one_line(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+\Z"):
        Named.of_json(data)
