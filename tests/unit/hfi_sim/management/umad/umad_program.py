"""A program at a umad device, as bytes: what libibumad writes and reads."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Protocol

from hfi_sim.management.umad.abi import ENABLE_PKEY, REGISTER_AGENT2

OUI = bytes.fromhex("00066a")


class Device(Protocol):
    """An open device."""

    def ioctl(self, command: int, data: bytes) -> bytes: ...
    def write(self, data: bytes) -> int: ...
    def read(self, size: int) -> bytes | None: ...


def mask(*methods: int) -> int:
    return sum(1 << method for method in methods)


def register2(
    mgmt_class: int,
    *methods: int,
    version: int = 0x80,
    oui: int = 0x66A,
    rmpp: int = 0,
    flags: int = 0,
    qpn: int = 1,
) -> bytes:
    """Return the argument of REGISTER_AGENT2."""
    bits = mask(*methods)
    low, high = bits & (1 << 64) - 1, bits >> 64
    return struct.pack("<2I2BHI2QIB3x", 0, qpn, mgmt_class, version, 0, flags, low, high, oui, rmpp)


@dataclass
class Received:
    """A message as a program reads it."""

    agent_id: int
    status: int
    length: int
    lid: int
    has_grh: int
    gid: bytes
    pkey_index: int
    mad: bytes


def received(data: bytes) -> Received:
    agent_id, status, _, _, length = struct.unpack_from("<5I", data)
    lid, has_grh = struct.unpack_from(">H2xB", data, 28)
    return Received(
        agent_id, status, length, lid, has_grh, data[36:52], struct.unpack_from("<H", data, 56)[0], data[64:]
    )


def message(
    agent: int, mad: bytes, lid: int, *, timeout_ms: int = 0, retries: int = 0, pkey_index: int = 0
) -> bytes:
    """Return what is written to send a MAD; a LID of more than 16 bits stands in the GID."""
    wide = lid > 0xBFFF
    gid = struct.pack(">QQ", 0xFE80 << 48, 0x66A << 40 | lid) if wide else bytes(16)
    head = struct.pack("<5I", agent, 0, timeout_ms, retries, 0)
    head += struct.pack(">IIH6B16sI", 1, 0x80010000, lid & 0xFFFF, 0, 0, int(wide), 0, 0, 0, gid, 0)
    return head + struct.pack("<H6x", pkey_index) + mad


def ema(method: int = 1, tid: int = 7, attr_id: int = 1, data: bytes = b"", rmpp: bytes = bytes(12)) -> bytes:
    """Return a MAD of the EMA class."""
    head = struct.pack(">4BHHQHHI", 0x80, 0x34, 0x80, method, 0, 0, tid, attr_id, 0, 0)
    return (head + rmpp + b"\0" + OUI + data).ljust(2048, b"\0")


def agent_on(file: Any, *methods: int, mgmt_class: int = 0x34, **options: int) -> int:
    """Enable P_Key indices where that is still possible, register an agent, and return its number."""
    if not getattr(file, "_in_use", False):
        file.ioctl(ENABLE_PKEY, b"")
    argument = file.ioctl(REGISTER_AGENT2, register2(mgmt_class, *methods, **options))
    return int(struct.unpack_from("<I", argument)[0])
