"""Patterns that select frames: a scapy packet, a layer, a predicate, or exact bytes."""

from __future__ import annotations

from typing import Any

from scapy.layers.l2 import Ether
from scapy.packet import NoPayload, Packet

from opavnic.base.errors import OpavnicError

Pattern = Any
"""A packet matches frames with equal values in all fields that it sets; a layer type, frames with that layer."""


class PatternError(OpavnicError):
    """A pattern is of a type that cannot match frames."""


class Matcher:
    """Matches frames against a pattern."""

    def __init__(self, pattern: Pattern) -> None:
        """Check the pattern.

        Raises:  PatternError: it is neither a packet, a layer, bytes nor a predicate.
        """
        is_layer = isinstance(pattern, type) and issubclass(pattern, Packet)
        if not (
            isinstance(pattern, bytes | Packet)
            or is_layer
            or (callable(pattern) and not isinstance(pattern, type))
        ):
            raise PatternError(
                f"{pattern!r} is not a pattern; give a packet such as ARP(op=2), a layer such as ARP, bytes, "
                "or a function of the packet"
            )
        self._pattern = pattern

    def fits(self, frame: bytes) -> bool:
        """Return whether an Ethernet frame matches."""
        pattern = self._pattern
        if isinstance(pattern, bytes):
            return frame == pattern
        packet = dissect(frame)
        if isinstance(pattern, Packet):
            return _has_layers(packet, pattern)
        if isinstance(pattern, type):
            return bool(packet.haslayer(pattern))
        return bool(pattern(packet))

    def __str__(self) -> str:
        pattern = self._pattern
        if isinstance(pattern, Packet):
            return " / ".join(_layer_text(layer) for layer in _layers(pattern))
        if isinstance(pattern, bytes):
            return f"frame of {len(pattern)} bytes"
        return getattr(pattern, "__name__", repr(pattern))


def dissect(frame: bytes) -> Packet:
    """Return a frame as a scapy packet."""
    return Ether(frame)


def summary(frame: bytes) -> str:
    """Return a one-line summary of a frame."""
    return str(dissect(frame).summary())


def _layers(packet: Packet) -> list[Packet]:
    layers = []
    while not isinstance(packet, NoPayload):
        layers.append(packet)
        packet = packet.payload
    return layers


def _has_layers(packet: Packet, pattern: Packet) -> bool:
    """Return whether `packet` has the layers of `pattern` in order, with the same values in all fields that it sets."""
    remaining = packet
    for layer in _layers(pattern):
        found = remaining.getlayer(type(layer))
        while found is not None and not _same_fields(found, layer):
            found = found.payload.getlayer(type(layer))
        if found is None:
            return False
        remaining = found.payload
    return True


def _same_fields(found: Packet, layer: Packet) -> bool:
    for name, value in layer.fields.items():
        field = layer.get_field(name)
        if field.i2repr(layer, value) != field.i2repr(found, found.getfieldval(name)):
            return False
    return True


def _layer_text(layer: Packet) -> str:
    values = ", ".join(
        f"{name}={layer.get_field(name).i2repr(layer, value)}" for name, value in layer.fields.items()
    )
    return f"{type(layer).__name__}({values})"
