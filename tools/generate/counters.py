"""Drop reasons and counters: Rust enumerations and structures, types of `opavnic._native`, a table in docs/."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ejfat.base.drops import LbDrop as EjfatDrop
from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.text import attribute_docs
from opavnic.vnic.counters import TrafficCounters, VnicCounters
from tools.generate.origins import module_file
from tools.generate.sections import Section, fill, note


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters that native/ keeps too: their names in Rust and in the types of `opavnic._native`."""

    declared: type
    rust: str
    stub: str
    without: frozenset[str] = frozenset()
    """Fields that are not counted natively."""
    attributes: tuple[str, ...] = ()
    """Lines in front of the Rust structure."""

    def defaults(self) -> dict[str, object]:
        """Return the counters by name, each as it begins."""
        fresh = self.declared()
        names = [item.name for item in fields(self.declared) if item.name not in self.without]
        return {name: getattr(fresh, name) for name in names}


COUNTERS: Final = (
    Counters(
        PacketCounters,
        "Element",
        "ElementCounts",
        frozenset({"in_flight"}),
        (
            "///",
            "/// A packet passes a dozen of these. The numbers that it changes lie in one cache line of each, which",
            "/// matters with many vports.",
            "#[repr(align(64))]",
        ),
    ),
    Counters(TrafficCounters, "Traffic", "TrafficCounts"),
    Counters(VnicCounters, "Vnic", "VnicCounts"),
)
_ORIGINS: Final = ", ".join(module_file(cls.__module__) for cls in (Drop, VnicCounters))
_WIDTH: Final = 110
"""The longest line of a Rust file, as native/rustfmt.toml says."""


def sources(_root: Path) -> Iterator[tuple[str, str]]:
    """Yield the Rust files."""
    lines = [
        f"//! {note(_ORIGINS).capitalize()}.",
        "",
        "use crate::counters::Tally;",
        "",
        *_rust_drops(Drop),
        *(line for counters in COUNTERS for line in ("", *_rust_structure(counters))),
    ]
    yield "native/engine/src/counters/declared.rs", "\n".join(lines) + "\n"
    lines = [f"//! {note(module_file(EjfatDrop.__module__)).capitalize()}.", "", *_rust_drops(EjfatDrop)]
    yield "native/ejfat/src/drops.rs", "\n".join(lines) + "\n"


def stubs(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the types of the native module, with those of its counters made anew."""
    path = "opavnic/_native.pyi"
    lines = ["", *(line for counters in COUNTERS for line in (*_stub(counters), ""))]
    yield path, fill(root / path, {"counters": Section("\n".join(lines) + "\n", _ORIGINS)})


def _rust_drops(reasons: type[StrEnum]) -> Iterator[str]:
    docs = attribute_docs(reasons)
    yield from comment("", inspect.getdoc(reasons) or "")
    yield from ("#[derive(Clone, Copy, Debug, PartialEq, Eq)]", "#[repr(u8)]", "pub enum Drop {")
    for reason in reasons:
        yield from comment("    ", docs.get(reason.name, ""))
        yield f"    {reason.name.title().replace('_', '')},"
    yield from ("}", "", "/// Their names, by number.", f"pub const DROP_NAMES: [&str; {len(reasons)}] = [")
    yield from (f'    "{reason}",' for reason in reasons)
    yield "];"


def _rust_structure(counters: Counters) -> Iterator[str]:
    docs = attribute_docs(counters.declared)
    yield from comment("", inspect.getdoc(counters.declared) or "")
    yield from counters.attributes
    yield from ("#[derive(Clone, Debug, Default, PartialEq, Eq)]", f"pub struct {counters.rust} {{")
    defaults = counters.defaults()
    for name, value in defaults.items():
        yield from comment("    ", docs.get(name, ""))
        yield f"    pub {name}: {_rust_type(value)},"
    numbers = [name for name, value in defaults.items() if isinstance(value, int)]
    yield from ("}", "", f"impl {counters.rust} {{")
    yield from ("    /// The single numbers, with their names.", "    #[rustfmt::skip]")
    yield f"    pub fn numbers(&self) -> [(&'static str, u64); {len(numbers)}] {{"
    yield from ("        [", *(f'            ("{name}", self.{name}),' for name in numbers), "        ]")
    yield from ("    }", "}")


def _rust_type(value: object) -> str:
    if isinstance(value, list):
        return f"[u64; {len(value)}]"
    if isinstance(value, dict):
        return "Tally<{ DROP_NAMES.len() }>"
    return next((it.rust for it in COUNTERS if isinstance(value, it.declared)), "u64")


def comment(indent: str, text: str) -> list[str]:
    """Return lines of a Rust comment."""
    return [
        f"{indent}/// {line}".rstrip()
        for paragraph in text.split("\n\n")
        for line in textwrap.wrap(" ".join(paragraph.split()), _WIDTH - len(indent) - 4)
    ]


def _stub(counters: Counters) -> list[str]:
    types = {name: _stub_type(value) for name, value in counters.defaults().items()}
    return [f"class {counters.stub}(TypedDict):", *(f"    {name}: {kind}" for name, kind in types.items())]


def _stub_type(value: Any) -> str:
    if isinstance(value, list):
        return "list[int]"
    if isinstance(value, dict):
        return "dict[str, int]"
    return next((it.stub for it in COUNTERS if isinstance(value, it.declared)), "int")
