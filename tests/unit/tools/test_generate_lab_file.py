"""The reference of lab files and EM files: what it says of keys, values and defaults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from opavnic.lab.file.parts import lab_model
from tools.generate import lab_file
from vema.em.desired.desired import EmConfig

ROOT = Path(__file__).parents[3]


def page(name: str) -> str:
    return dict(lab_file.pages(ROOT))[name]


LAB_PAGES = (lab_file.LAB, lab_file.FABRIC)


@pytest.mark.parametrize(("names", "model"), [(LAB_PAGES, lab_model()), ((lab_file.EM,), EmConfig)])
def test_every_key_of_a_schema_has_a_row_and_every_section_a_heading(
    names: tuple[str, ...], model: type[BaseModel]
) -> None:
    text, schema = "".join(map(page, names)), model.model_json_schema()
    keys = [key for part in (schema, *schema["$defs"].values()) for key in part.get("properties", {})]
    assert sorted(re.findall(r"^\| `(\w+)` \|", text, flags=re.M)) == sorted(keys)
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", text, flags=re.M)}
    assert set(re.findall(r"\((?:lab|lab-fabric)?(?:\.md)?#(\w+)\)", text)) <= headings


def test_schemas_for_editors_are_generated_files() -> None:
    assert [path for path, _ in lab_file.schemas(ROOT)] == ["docs/lab.schema.json", "docs/em.schema.json"]


def test_values_and_defaults_are_as_people_write_them() -> None:
    text = "".join(map(page, LAB_PAGES))
    assert "| `latency` | 300ns, 1us, 2ms, or 0; with a unit; at most 1h | `300ns` |" in text
    assert "| `pkey` | integer, 1 to 65535 | `0x8001` | The partition of its members." in text
    assert "| `engine` | `auto` or `python` or `native` | `auto` |" in text
    assert "anything" not in text
