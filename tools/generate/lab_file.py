"""The reference of lab files and EM files in docs/: every key with its values, default and meaning; JSON schemas."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel

from hfi_sim.base.options import Option
from hfi_sim.base.quantities import rate_text, size_text, time_text
from hfi_sim.base.text import attribute_docs
from opavnic.lab.file import fabric_model
from opavnic.lab.file import model as declared
from opavnic.lab.file.parts import lab_model
from tools.generate.origins import module_file
from tools.generate.sections import Section, fill
from vema.em.desired import desired
from vema.em.desired.desired import EmConfig

LAB: Final = "docs/reference/lab.md"
FABRIC: Final = "docs/reference/lab-fabric.md"
"""The sections of lab files that the model of the fabric declares."""
EM: Final = "docs/reference/em-file.md"
_ENUM_MAX: Final = 12
_IN_HEX: Final = frozenset({"pkey", "polynomial"})


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the pages that list the keys of lab files and of EM files."""
    lab = _tables("A lab file", lab_model())
    fabric = {model: lab.pop(model) for model in [*lab] if model.__module__ == fabric_model.__name__}
    for page, module, tables, other in (
        (LAB, declared, lab, FABRIC),
        (FABRIC, fabric_model, fabric, LAB),
        (EM, desired, _tables("An EM file", EmConfig), LAB),
    ):
        text = "".join(tables.values())
        here = {_title(model.__name__).lower() for model in tables}
        for title in set(re.findall(r"\]\(#(\w+)\)", text)) - here:
            text = text.replace(f"](#{title})", f"]({Path(other).name}#{title})")
        yield page, fill(root / page, {"keys": Section(text, module_file(module.__name__))})


def schemas(_: Path) -> Iterator[tuple[str, str]]:
    """Yield the JSON schemas of lab files and EM files."""
    for kind, model in (("lab", lab_model()), ("em", EmConfig)):
        yield f"docs/{kind}.schema.json", json.dumps(model.model_json_schema(), indent=2) + "\n"


def _tables(what: str, whole: type[BaseModel]) -> dict[type[BaseModel], str]:
    """Return the section about each model of a file. Args: what: the heading of the whole."""
    schema = whole.model_json_schema()
    known = schema["$defs"]
    classes = {found.__name__: found for found in _models(whole)}
    parts: list[tuple[str, Mapping[str, Any], type[BaseModel]]] = [(what, schema, whole)]
    parts += [(name, part, classes[name]) for name, part in known.items() if part.get("properties")]
    return {model: "\n".join(_lines(name, part, model, known)) + "\n" for name, part, model in parts}


def _lines(
    name: str, part: Mapping[str, Any], model: type[BaseModel], known: Mapping[str, Any]
) -> Iterator[str]:
    meanings = _meanings(model)
    yield from (f"### {_title(name)}", "", " ".join(str(part.get("description", "")).split()), "")
    yield from ("| key | value | default | meaning |", "|---|---|---|---|")
    required = part.get("required", ())
    for key, value in part["properties"].items():
        default = "required" if key in required else _default(key, value)
        said = meanings.get(key, "").replace("|", "\\|")
        yield f"| `{key}` | {_value(value, known)} | {default} | {said} |"
    yield ""


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a model and those that its fields hold, each once or more."""
    seen: set[type[BaseModel]] = set()
    ahead: list[Any] = [model]
    while ahead:
        kind = ahead.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            if kind not in seen:
                seen.add(kind)
                ahead += [field.annotation for field in kind.model_fields.values()]
        else:
            ahead += get_args(kind)
    yield from seen


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return what the source says below each field of a model or of what it inherits from."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            found |= {
                key: _meaning(row)
                for key, field in kind.model_fields.items()
                for row in field.metadata
                if isinstance(row, Option)
            }
            with contextlib.suppress(OSError):  # made at run time, with the sections of installed parts
                found |= attribute_docs(kind)
            found |= getattr(kind, "MEANINGS", {})
    return found


def _meaning(row: Option) -> str:
    default = f" Default: {row.shown_default}." if row.shown_default else ""
    return f"{row.meaning[0].upper()}{row.meaning[1:]}.{default}"


def _title(name: str) -> str:
    return name.removesuffix("Model").removesuffix("Section")


def _value(value: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return what a key may be. Args: known: the schemas that others refer to."""
    if "description" in value:
        return str(value["description"]).replace("|", "\\|")
    return " or ".join(dict.fromkeys(text for text in _choices(value, known) if text))


def _choices(value: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        if "enum" in known[name]:
            yield from _choices(known[name], known)
        else:
            yield f"[{_title(name)}](#{_title(name).lower()})"
    for choice in (*value.get("anyOf", ()), *value.get("oneOf", ()), *value.get("allOf", ())):
        yield _value(choice, known)
    for one in value.get("enum", ())[:_ENUM_MAX]:
        yield "" if one is None else f"`{json.dumps(one)}`" if not isinstance(one, str) else f"`{one}`"
    if "const" in value:
        yield f"`{value['const']}`"
    kind = value.get("type")
    if "enum" in value or kind in (None, "null"):
        return
    if kind == "array":
        yield f"list of {_value(value['items'], known)}" if "items" in value else "list"
    elif kind == "object" and isinstance(value.get("additionalProperties"), dict):
        yield f"names with {_value(value['additionalProperties'], known)}"
    elif kind in ("integer", "number"):
        yield f"{kind}{_bounds(value)}"
    else:
        yield str(kind) if isinstance(kind, str) else " or ".join(one for one in kind if one != "null")


def _bounds(value: Mapping[str, Any]) -> str:
    low, high = value.get("minimum"), value.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    return f", from {low}" if low is not None else f", up to {high}" if high is not None else ""


def _default(key: str, value: Mapping[str, Any]) -> str:
    default = value.get("default")
    if default is None or isinstance(default, dict | list):
        return ""
    if key in _IN_HEX:
        return f"`{default:#x}`"
    what = str(value.get("description", ""))
    if what.startswith("300ns") and default:
        return f"`{time_text(default)}`"
    if what.startswith("bits per second"):
        return f"`{rate_text(default)}`"
    if what.startswith("bytes"):
        return f"`{size_text(default)}`"
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"
