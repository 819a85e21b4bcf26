"""A scapy layer from the declaration of a header: its fields, and bytes to values and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from scapy.fields import BitEnumField, BitField, XBitField, XStrFixedLenField
from scapy.packet import Packet

from hfi_sim.wire.field import BITS_PER_BYTE, Field, Shown
from hfi_sim.wire.header import WireHeader


class HeaderLayer(Packet):
    """A layer whose bytes are one header, or several in a row; the headers read and write them.

    A subclass lists them in `headers`, with what the names of their fields begin with, and sets `fields_desc` to
    `fields_of(headers)`. The scapy fields serve people, and hold the defaults.
    """

    headers: ClassVar[tuple[tuple[str, type[WireHeader]], ...]]

    def do_dissect(self, s: bytes) -> bytes:
        """Read the headers and return what follows them.

        Raises:  WireError: fewer bytes than they have.
        """
        whole = s
        for prefix, header in self.headers:
            for name, value in header.HEADER.read(s).items():
                self.fields[_prefixed(prefix, name)] = int(value) if isinstance(value, bool) else value
            s = s[header.SIZE :]
        self.explicit = 1
        # while no field changes, scapy then builds without post_build: nothing is filled up
        self.raw_packet_cache = whole[: len(whole) - len(s)]
        return s

    def self_build(self) -> bytes:
        """Return the bytes of the headers; what is None is 0 there.

        Raises:  ValueError: a value does not fit its field.
        """
        return b"".join(
            header.HEADER.write(
                {name: self.getfieldval(_prefixed(prefix, name)) or 0 for name in header.HEADER.fields}
            )
            for prefix, header in self.headers
        )


def fields_of(headers: Iterable[tuple[str, type[WireHeader]]], **defaults: Any) -> list[Any]:
    """Return the scapy fields of headers.

    Args:    defaults: other defaults than the headers' own; 0 where there is neither.
    """
    return [
        _scapy_field(_prefixed(prefix, item.name), header.HEADER.fields[item.name], item.default, defaults)
        for prefix, header in headers
        for item in dataclasses.fields(header)  # type: ignore[arg-type]
    ]


def _prefixed(prefix: str, name: str) -> str:
    return name if name.startswith(prefix) else prefix + name


def _scapy_field(name: str, field: Field, default: Any, defaults: Mapping[str, Any]) -> Any:
    default = defaults.get(name, 0 if default is dataclasses.MISSING else default)
    if not field.is_number:
        return XStrFixedLenField(name, default, field.width // BITS_PER_BYTE)
    default = None if default is None else int(default)
    if field.texts:
        return BitEnumField(name, default, field.bits, dict(field.texts))
    return (XBitField if field.shown is Shown.HEX else BitField)(name, default, field.bits)
