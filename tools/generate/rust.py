"""Where the fields stand that the native datapath reads and writes: fields.rs of the crates wire and ejfat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ejfat.wire.headers import LB_MAGIC, LB_PORT, SYNC_MAGIC, LbHeaderV1, LbHeaderV2, LbHeaderV3, SyncHeader
from hfi_sim.wire.header import Header, WireHeader
from hfi_sim.wire.lrh16b import L2_9B, L2_16B, L4, LT_HEAD, EthernetL4, Lrh16B
from hfi_sim.wire.packet import Trailer
from tools.generate.origins import module_file, origin
from tools.generate.sections import note

_PATH: Final = "native/wire/src/fields.rs"
_EJFAT_PATH: Final = "native/ejfat/src/fields.rs"


def sources(_root: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of the fields."""
    declarations = (Lrh16B, EthernetL4, Trailer)
    origins = origin(*(header.HEADER for header in declarations))
    lines = [
        f"//! {note(origins).capitalize()}.",
        "",
        *_constants("lrh16b", Lrh16B, {"L2_16B": L2_16B, "L2_9B": L2_9B, "LT_HEAD": LT_HEAD}),
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
    """Return where the fields of the load balancer headers begin; these stand behind headers of any length."""
    first, second, third = (header.HEADER for header in (LbHeaderV1, LbHeaderV2, LbHeaderV3))
    # native/ parses versions 2 and 3 alike
    assert [place.offset for place in second.places] == [place.offset for place in third.places]  # noqa: S101
    lines = [
        f"//! {note(origin(first, second, third, SyncHeader.HEADER)).capitalize()}.",
        "",
        "/// UDP destination port of the load balancer.",
        f"pub const LB_PORT: u16 = 0x{LB_PORT:04x};",
        "/// What a load balancer header begins with.",
        f"pub const LB_MAGIC: u16 = 0x{LB_MAGIC:04x};",
        "/// What a sync message begins with.",
        f"pub const SYNC_MAGIC: u16 = 0x{SYNC_MAGIC:04x};",
        *_offsets("lb_v1", "version 1", first),
        *_offsets("lb_v23", "versions 2 and 3, with the names of version 3", third),
    ]
    return "\n".join([*lines, ""])


def _offsets(module: str, versions: str, header: Header) -> Iterator[str]:
    """Yield a Rust module with the size of a header, and the bytes that its fields begin at."""
    yield from ("", f"/// The {header.title}, {versions}: its size, and where its fields begin.")
    yield from (f"pub mod {module} {{", f"    pub const SIZE: usize = {header.size};")
    yield from (f"    pub const {place.name.upper()}: usize = {place.offset};" for place in header.places)
    yield "}"


def _constants(module: str, header: type[WireHeader], values: dict[str, int] | None = None) -> Iterator[str]:
    """Yield a Rust module with the size, the fields and further values of a header."""
    declared = header.HEADER
    yield f"/// The {declared.title}. Source: {declared.source}."
    yield f"pub mod {module} {{"
    yield f"    use crate::{'{Field, Split}' if any(f.split for f in declared.fields.values()) else 'Field'};"
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
