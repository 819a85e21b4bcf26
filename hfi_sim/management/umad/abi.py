"""Bytes that programs exchange with a umad device: the header before each MAD, and the arguments of the ioctls.

Numbers are little-endian, as on every machine that this runs on, but those that the kernel declares big-endian: qpn,
qkey, lid, flow_label.

Source: the public Linux header rdma/ib_user_mad.h; what is refused, and how: drivers/infiniband/core/user_mad.c.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.errors import HfiSimError
from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.wire.mad.header import EMA_OUI

ABI_VERSION: Final = 5
"""What /sys/class/infiniband_mad/abi_version says."""

ENABLE_PKEY: Final = 0x00001B03
REGISTER_AGENT: Final = 0xC01C1B01
REGISTER_AGENT2: Final = 0xC0281B04
UNREGISTER_AGENT: Final = 0x40041B02

HEADER_SIZE: Final = 64
"""Bytes of the header once a program has asked for P_Key indices; the field is the last of it."""
OLD_HEADER_SIZE: Final = 56
"""Bytes of the header before that."""

USER_RMPP: Final = 1
"""The flag of REGISTER_AGENT2 of an agent that does RMPP itself."""

_HEAD: Final = struct.Struct("<5I")  # id, status, timeout_ms, retries, length
_ADDRESS: Final = struct.Struct(">IIH6B16sI")  # qpn, qkey, lid, sl ... traffic_class, gid, flow_label
_PKEY: Final = struct.Struct("<H6x")
_REGISTER: Final = struct.Struct(
    "<5I3B3sBx"
)  # id, 4 words of methods, qpn, class, version, OUI, RMPP version
_REGISTER2: Final = struct.Struct(
    "<2I2BHI2QIB3x"
)  # id, qpn, class, version, 0, flags, methods, OUI, RMPP version
ID: Final = struct.Struct("<I")
"""The id of an agent: argument of UNREGISTER_AGENT, and first field of the others."""

_LID_PERMISSIVE_16: Final = 0xFFFF
_MULTICAST_16: Final = 0xC000
_MULTICAST: Final = 0xF00000
_OPA_GID: Final = int.from_bytes(EMA_OUI) << 40
"""The upper bits of the lower half of a GID that holds an OPA LID; the OUI is Intel's, as in EMA MADs."""
_SUBNET_PREFIX: Final = 0xFE80 << 48


class UmadError(HfiSimError):
    """What a program asked of the device is refused with an errno."""

    def __init__(self, number: int, message: str, head: bytes = b"") -> None:
        super().__init__(message)
        self.errno = number
        self.head = head
        """Bytes that the caller's buffer gets although the read fails (ENOSPC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UmadHeader:
    """The header before a MAD, as far as it means something here."""

    agent_id: int
    status: int = 0
    """0, or the errno of a MAD that comes back: ETIMEDOUT."""
    timeout_ms: int = 0
    retries: int = 0
    length: int = 0
    """Of the message with this header, where it comes from the device."""
    qpn: int = 1
    lid: int = 0
    """The LID of the other port, 24 bits."""
    sl: int = 0
    path_bits: int = 0
    pkey_index: int = 0

    @classmethod
    def parse(cls, data: bytes | memoryview, *, with_pkey: bool) -> UmadHeader:
        """Read the header that a program has written.

        Raises:  UmadError: too few bytes.
        """
        if len(data) < (HEADER_SIZE if with_pkey else OLD_HEADER_SIZE):
            raise UmadError(errno.EINVAL, f"{len(data)} bytes are shorter than the header")
        agent_id, status, timeout_ms, retries, length = _HEAD.unpack_from(data)
        qpn, _, lid, sl, path_bits, has_grh, _, _, _, gid, _ = _ADDRESS.unpack_from(data, _HEAD.size)
        index = _PKEY.unpack_from(data, OLD_HEADER_SIZE)[0] if with_pkey else 0
        return cls(
            agent_id=agent_id,
            status=status,
            timeout_ms=timeout_ms,
            retries=retries,
            length=length,
            qpn=qpn,
            lid=_wide_lid(lid, gid if has_grh else None),
            sl=sl & 0x1F,
            path_bits=path_bits,
            pkey_index=index,
        )

    def build(self, *, with_pkey: bool) -> bytes:
        """Return the bytes that a program reads; a LID that 16 bits do not hold stands in an OPA GID as well."""
        wide = _MULTICAST_16 <= self.lid < LID_PERMISSIVE
        gid = struct.pack(">QQ", _SUBNET_PREFIX, _OPA_GID | self.lid) if wide else bytes(16)
        address = (self.qpn, 0, self.lid & 0xFFFF, self.sl, self.path_bits, int(wide), 0, 0, 0, gid, 0)
        data = _HEAD.pack(self.agent_id, self.status, self.timeout_ms, self.retries, self.length)
        data += _ADDRESS.pack(*address)
        return data + _PKEY.pack(self.pkey_index) if with_pkey else data


def with_status(header: bytes, status: int) -> bytes:
    """Return a header that a program has written, with another status."""
    return header[: ID.size] + ID.pack(status) + header[2 * ID.size :]


def _wide_lid(lid: int, gid: bytes | None) -> int:
    """Return the LID of 24 bits that a program means by 16 bits and, maybe, the destination GID."""
    if gid is not None:
        interface_id = int.from_bytes(gid[8:])
        if interface_id >> 40 == _OPA_GID >> 40:
            return interface_id & 0xFFFFFF
    if lid == _LID_PERMISSIVE_16:
        return LID_PERMISSIVE
    if lid >= _MULTICAST_16:
        return _MULTICAST + lid - _MULTICAST_16
    return lid


@dataclass(frozen=True, slots=True)
class Registration:
    """What a program asks for when it registers an agent."""

    qpn: int
    mgmt_class: int
    """0: an agent that only sends requests and gets their responses."""
    class_version: int
    methods: frozenset[int]
    """The methods of MADs that it gets without having asked."""
    oui: bytes | None
    """Of the vendor classes 0x30 to 0x4f."""
    rmpp_version: int
    user_rmpp: bool

    @classmethod
    def parse(cls, command: int, data: bytes) -> Registration:
        """Read the argument of REGISTER_AGENT or REGISTER_AGENT2.

        Raises:  UmadError: too few bytes, unknown flags, or an OUI of more than 24 bits.
        """
        layout = _REGISTER if command == REGISTER_AGENT else _REGISTER2
        if len(data) < layout.size:
            raise UmadError(errno.EINVAL, f"{len(data)} bytes, a registration has {layout.size}")
        if command == REGISTER_AGENT:
            _, *words, qpn, mgmt_class, version, oui, rmpp = _REGISTER.unpack_from(data)
            mask = sum(word << 32 * index for index, word in enumerate(words))
            return cls(qpn, mgmt_class, version, _methods(mask), oui, rmpp, False)
        _, qpn, mgmt_class, version, _, flags, low, high, number, rmpp = _REGISTER2.unpack_from(data)
        if flags & ~USER_RMPP:
            raise UmadError(errno.EINVAL, f"unknown flags {flags:#x}")
        if mgmt_class and number >> 24:
            raise UmadError(errno.EINVAL, f"OUI {number:#x} has more than 24 bits")
        oui = (number & 0xFFFFFF).to_bytes(3, "big")
        return cls(qpn, mgmt_class, version, _methods(low | high << 64), oui, rmpp, bool(flags & USER_RMPP))


def _methods(mask: int) -> frozenset[int]:
    return frozenset(method for method in range(128) if mask >> method & 1)
