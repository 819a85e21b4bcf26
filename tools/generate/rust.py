"""Where the fields stand that the native datapath reads and writes: fields.rs in native/src/wire and src/ejfat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ejfat.wire.headers import LbHeaderV1, LbHeaderV2, LbHeaderV3
from hfi_sim.wire.header import WireHeader
from hfi_sim.wire.l4 import L4, EthernetL4
from hfi_sim.wire.lrh16b import L2_16B, LT_HEAD, Lrh16B
from hfi_sim.wire.packet import Trailer
from tools.generate.origins import module_file, origin
from tools.generate.sections import note

_PATH: Final = "native/src/wire/fields.rs"
_EJFAT_PATH: Final = "native/src/ejfat/fields.rs"


def sources(_root: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of the fields."""
    declarations = (Lrh16B, EthernetL4, Trailer)
    origins = origin(*(header.HEADER for header in declarations))
    lines = [
        f"//! {note(origins).capitalize()}.",
        "",
        *_constants("lrh16b", Lrh16B, {"L2_16B": L2_16B, "LT_HEAD": LT_HEAD}),
        *_constants("ethernet_l4", EthernetL4),
        *_constants("trailer", Trailer),
        f"/// L4 types, from {module_file(L4.__module__)}.",
        "pub mod l4 {",
    ]
    for code in L4:
        lines += [f"    /// {code.text}", f"    pub const {code.name}: u8 = 0x{code:02x};"]
    yield _PATH, "\n".join([*lines, "}", ""])
    yield _EJFAT_PATH, _ejfat()


def _ejfat() -> str:
    """Return the sizes and numbers of the load balancer header; it stands behind headers of any length."""
    declared = (LbHeaderV1.HEADER, LbHeaderV2.HEADER, LbHeaderV3.HEADER)
    first, second, third = (header.size for header in declared)
    assert second == third  # noqa: S101 - native/ parses both versions alike
    lines = [
        f"//! {note(origin(*declared)).capitalize()}.",
        "",
        "/// Bytes of the load balancer header, version 1.",
        f"pub const LB_V1: usize = {first};",
        "/// Bytes of the load balancer header, versions 2 and 3.",
        f"pub const LB_V23: usize = {second};",
    ]
    return "\n".join([*lines, ""])


def _constants(module: str, header: type[WireHeader], values: dict[str, int] | None = None) -> Iterator[str]:
    """Yield a Rust module with the size, the fields and further values of a header."""
    declared = header.HEADER
    yield f"/// The {declared.title}. Source: {declared.source}."
    yield f"pub mod {module} {{"
    yield f"    use crate::wire::{'{Field, Split}' if any(f.split for f in declared.fields.values()) else 'Field'};"
    yield ""
    yield "    /// Bytes of the header."
    yield f"    pub const SIZE: usize = {declared.size};"
    for name, value in (values or {}).items():
        yield f"    pub const {name}: u32 = {value};"
    if any(declared.variable_mask()):
        mask = ", ".join(f"0x{byte:02x}" if byte else "0" for byte in declared.variable_mask())
        yield "    /// The bits that may change on the way."
        yield f"    pub const MAY_CHANGE: [u8; SIZE] = [{mask}];"
    for name, field in declared.fields.items():
        yield f"    /// {field.meaning}"
        if field.split is None:
            place = declared.place(name)
            made = f"Field = Field::new({place.offset_bits}, {place.width_bits})"
        else:
            low, high = (f"Field::new({first}, {bits})" for first, bits in field.split)
            made = f"Split = Split {{ low: {low}, high: {high} }}"
        yield f"    pub const {name.upper()}: {made};"
    yield "}"
    yield ""
