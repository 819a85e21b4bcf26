"""Options of links and faults: structures of native/, and tables in docs/."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args, get_type_hints

from hfi_sim.base.options import options_of
from hfi_sim.engine.link import config, rule
from hfi_sim.engine.link.config import CREDIT_OPTIONS, LINK_OPTIONS, LinkConfig, LinkOption
from hfi_sim.engine.link.rule import PACKET_KINDS, FaultKind, Match, PacketOptions
from hfi_sim.fabric.faults import kinds
from hfi_sim.fabric.faults.kinds import FAULT_OPTIONS
from tools.generate.counters import comment
from tools.generate.origins import module_file
from tools.generate.sections import Section, fill

_ENGINE: Final = "native/engine/src/link"
_ARGUMENTS: Final = "native/python/src/fabric_args.rs"
_LINKS_PAGE: Final = "docs/reference/links.md"
_FAULTS_PAGE: Final = "docs/reference/faults.md"
_RULE: Final = module_file(rule.__name__)
_LINK: Final = module_file(config.__name__)
_RULES: Final = f"{_RULE}, {module_file(kinds.__name__)}"
_BODY: Final = " " * 4
_VALUE: Final = " " * 12
"""Indentation of the fields of a structure, and of those of a value in a method."""


def sources(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the Rust files: the fields of the engine's structures, and of the arguments that they are built from."""
    conditions, options, links = (
        _numbers(declared, kind)
        for declared, kind in ((Match, "u32"), (PacketOptions, "u64"), (LinkConfig, "u64"))
    )
    fields = {
        "fault-kinds": Section("\n".join(_kinds()) + "\n", _RULE),
        "match": _fields(conditions),
        "fault-options": _fields(options),
        "fault-option-defaults": _defaults(options, _RULE),
    }
    yield f"{_ENGINE}/rule.rs", fill(root / _ENGINE / "rule.rs", fields)
    fields = {
        "link-options": _fields(links, _LINK),
        "link-option-defaults": _defaults(links, _LINK),
    }
    yield f"{_ENGINE}/config.rs", fill(root / _ENGINE / "config.rs", fields)
    arguments = {
        "link-option-arguments": _arguments(links, _LINK, "    #[pyo3(from_py_with = whole)]\n"),
        "link-option-values": _values(links, _LINK),
        "match-arguments": _arguments(conditions),
        "match-values": _values(conditions),
        "fault-option-arguments": _arguments(options),
        "fault-option-values": _values(options),
    }
    yield _ARGUMENTS, fill(root / _ARGUMENTS, arguments)


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the pages about links and faults with their tables made anew."""
    links = {
        "link-options": Section("\n".join(_link_table(LINK_OPTIONS)) + "\n", _LINK),
        "credit-options": Section("\n".join(_link_table(CREDIT_OPTIONS)) + "\n", _LINK),
    }
    yield _LINKS_PAGE, fill(root / _LINKS_PAGE, links)
    faults = {
        "fault-kinds": Section("\n".join(_kind_table()) + "\n", _RULE),
        "fault-options": Section("\n".join(_option_table()) + "\n", _RULES),
        "fault-matches": Section("\n".join(_match_table()) + "\n", _RULE),
    }
    yield _FAULTS_PAGE, fill(root / _FAULTS_PAGE, faults)


# --- native/ -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Number:
    """An option that an engine works by."""

    name: str
    kind: str
    """Its type in Rust."""
    meaning: str
    default: str


def _numbers(declared: type, kind: str) -> list[_Number]:
    hints = get_type_hints(declared)
    return [
        _Number(
            name,
            f"Option<{kind}>" if type(None) in get_args(hints[option.field]) else kind,
            option.meaning,
            "None" if (default := getattr(declared(), name)) is None else str(int(default)),
        )
        for option in options_of(declared)
        if (name := getattr(option, "engine", "") or option.field)
        if name != option.field or {int, float} & {hints[name], *get_args(hints[name])}
    ]


def _fields(numbers: Iterable[_Number], origin: str = _RULE) -> Section:
    lines = [
        line
        for number in numbers
        for line in (
            *comment(_BODY, f"{number.meaning[0].upper()}{number.meaning[1:]}."),
            f"{_BODY}pub {number.name}: {number.kind},",
        )
    ]
    return Section("\n".join(lines) + "\n", origin)


def _arguments(numbers: Iterable[_Number], origin: str = _RULE, before: str = "") -> Section:
    return Section("".join(f"{before}{_BODY}{number.name}: {number.kind},\n" for number in numbers), origin)


def _values(numbers: Iterable[_Number], origin: str = _RULE) -> Section:
    return Section("".join(f"{_VALUE}{number.name}: self.{number.name},\n" for number in numbers), origin)


def _defaults(numbers: Iterable[_Number], origin: str) -> Section:
    return Section("".join(f"{_VALUE}{number.name}: {number.default},\n" for number in numbers), origin)


def _kinds() -> Iterator[str]:
    kinds = [kind for kind in FaultKind if kind in PACKET_KINDS]
    yield from (
        "/// What a fault does to packets.",
        "#[derive(Clone, Copy, Debug, PartialEq, Eq)]",
        "pub enum FaultKind {",
    )
    yield from (f"    {_variant(kind)}," for kind in kinds)
    yield from ("}", "", "impl FaultKind {", "    /// Return the kind of this name.")
    yield from ("    pub fn named(name: &str) -> Option<Self> {", "        Some(match name {")
    yield from (f'            "{kind}" => FaultKind::{_variant(kind)},' for kind in kinds)
    yield from ("            _ => return None,", "        })", "    }", "}")


def _variant(kind: FaultKind) -> str:
    return kind.name.title().replace("_", "")


# --- docs/ -------------------------------------------------------------------------------------------------


def _link_table(options: Iterable[LinkOption]) -> Iterator[str]:
    yield from ("| key | value | default |", "|---|---|---|")
    for option in options:
        limit = "" if option.most == math.inf else f", {option.range_text()}"
        yield f"| `{option.key}` | {option.meaning}{limit} | {option.default_text()} |"


def _kind_table() -> Iterator[str]:
    yield from ("| kind | what happens | on |", "|---|---|---|")
    before = ""
    for kind in FaultKind:
        places = kind.target.places
        yield f"| `{kind}` | {kind.text} | {'the same' if places == before else places} |"
        before = places


def _option_table() -> Iterator[str]:
    yield from ("| option | of | value | default | meaning |", "|---|---|---|---|---|")
    for option in FAULT_OPTIONS.values():
        kinds = ", ".join(f"`{kind}`" for kind in FaultKind if kind in option.kinds)
        of = {frozenset(FaultKind): "all", PACKET_KINDS: "faults of packets"}.get(option.kinds, kinds)
        default = "required" if option.required else option.default_text()
        yield f"| `{option.key}` | {of} | {option.range_text()} | {default} | {option.meaning} |"


def _match_table() -> Iterator[str]:
    yield from ("| selects by | bits | meaning |", "|---|---|---|")
    for option in options_of(Match):
        yield f"| `{option.key}` | {getattr(option, 'bits', 0) or ''} | {option.meaning} |"
