"""Bytes that programs exchange with a umad device: the header before each MAD, and the arguments of the ioctls.

Numbers are little-endian, as on every machine that this runs on, but those that the kernel declares big-endian: qpn,
qkey, lid, flow_label.

Source: the public Linux header rdma/ib_user_mad.h; what is refused, and how: drivers/infiniband/core/user_mad.c.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import partial
from typing import Final

from hfi_sim.base.errors import HfiSimError, WireError
from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.wire.header import structure
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

_structure = partial(structure, module=__name__, within="umad")

_HEAD: Final = _structure("ib_user_mad_hdr", "u32 agent_id, status, timeout_ms, retries, length", "little")
_ADDRESS: Final = _structure(
    "ib_user_mad_hdr",
    "u32 qpn, qkey; u16 lid; u8 sl, path_bits, grh_present, gid_index, hop_limit, traffic_class, gid[16]; "
    "u32 flow_label",
    "big",
)
_PKEY: Final = _structure("ib_user_mad_hdr", "u16 pkey_index; u8 reserved[6]", "little")
_REGISTER: Final = _structure(
    "ib_user_mad_reg_req",
    "u32 id; u8 method_mask[16], qpn, mgmt_class, mgmt_class_version, oui[3], rmpp_version, padding",
    "little",
)
_REGISTER2: Final = _structure(
    "ib_user_mad_reg_req2",
    "u32 id, qpn; u8 mgmt_class, mgmt_class_version; u16 res; u32 flags; u8 method_mask[16]; u32 oui; "
    "u8 rmpp_version, reserved[3]",
    "little",
)
ID: Final = _structure("agent_id", "u32 id", "little")
"""The id of an agent: argument of UNREGISTER_AGENT, and first field of the others."""

_FLAGS_AT: Final = 12
"""Where the flags of REGISTER_AGENT2 stand."""

_LID_PERMISSIVE_16: Final = 0xFFFF
_MULTICAST_16: Final = 0xC000
_MULTICAST: Final = 0xF00000
OPA_GID: Final = int.from_bytes(EMA_OUI) << 40
"""The upper bits of the lower half of a GID that holds an OPA LID; the OUI is Intel's, as in EMA MADs."""
_SUBNET_PREFIX: Final = 0xFE80 << 48


class UmadError(HfiSimError):
    """What a program asked of the device is refused with an errno."""

    def __init__(self, number: int, message: str, head: bytes = b"") -> None:
        super().__init__(message)
        self.errno = number
        self.head = head
        """Bytes that the caller's buffer gets although the call fails: a read (ENOSPC), a registration."""


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
        """Read the header that a program has written. Raises: UmadError: too few bytes."""
        if len(data) < (HEADER_SIZE if with_pkey else OLD_HEADER_SIZE):
            raise UmadError(errno.EINVAL, f"{len(data)} bytes are shorter than the header")
        head, address = _HEAD.parse(data), _ADDRESS.parse(data[_HEAD.size :])
        return cls(
            **vars(head),
            qpn=address.qpn,
            lid=_wide_lid(address.lid, address.gid if address.grh_present else None),
            sl=address.sl & 0x1F,
            path_bits=address.path_bits,
            pkey_index=_PKEY.parse(data[OLD_HEADER_SIZE:]).pkey_index if with_pkey else 0,
        )

    def build(self, *, with_pkey: bool, with_gid: bool = False) -> bytes:
        """Return the bytes; a LID that 16 bits do not hold stands in an OPA GID as well.

        Args:  with_gid: any LID stands there, as a program writes it whose own LID 16 bits do not hold.
        """
        wide = with_gid or needs_gid(self.lid)
        gid = (_SUBNET_PREFIX << 64 | OPA_GID | self.lid) if wide else 0
        data = _HEAD.pack(self) + _ADDRESS.build(
            qpn=self.qpn,
            lid=self.lid & 0xFFFF,
            sl=self.sl,
            path_bits=self.path_bits,
            grh_present=int(wide),
            gid=gid.to_bytes(16),
        )
        return data + _PKEY.build(pkey_index=self.pkey_index) if with_pkey else data


def needs_gid(lid: int) -> bool:
    """Return whether a unicast LID is an extended one, or a multicast one stands for itself: 16 bits do not hold it."""
    return _MULTICAST_16 <= lid < LID_PERMISSIVE


def with_status(header: bytes, status: int) -> bytes:
    """Return a header that a program has written, with another status."""
    return header[: ID.size] + ID.build(id=status) + header[2 * ID.size :]


def _wide_lid(lid: int, gid: bytes | None) -> int:
    """Return the LID of 24 bits that a program means by 16 bits and, maybe, the destination GID."""
    if gid is not None:
        interface_id = int.from_bytes(gid[8:])
        if interface_id >> 40 == OPA_GID >> 40:
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
    """Of the vendor classes 0x30 to 0x4f; 4 bytes where the program asked for one that does not fit 3."""
    rmpp_version: int
    user_rmpp: bool

    @classmethod
    def parse(cls, command: int, data: bytes) -> Registration:
        """Read the argument of REGISTER_AGENT or REGISTER_AGENT2.

        Raises:  UmadError: too few bytes, no such queue pair, or unknown flags: then `head` has those that are known.
        """
        layout = _REGISTER if command == REGISTER_AGENT else _REGISTER2
        try:
            asked = layout.parse(data)
        except WireError as error:
            raise UmadError(errno.EINVAL, str(error)) from None
        if layout is _REGISTER:
            oui, flags = asked.oui, 0
        else:
            oui, flags = asked.oui.to_bytes(4).removeprefix(b"\0"), asked.flags
        if asked.qpn not in (0, 1):
            raise UmadError(errno.EINVAL, f"queue pair {asked.qpn} is neither 0 nor 1")
        if flags & ~USER_RMPP:
            known = data[:_FLAGS_AT] + ID.build(id=USER_RMPP) + data[_FLAGS_AT + ID.size :]
            raise UmadError(errno.EINVAL, f"unknown flags {flags:#x}", known)
        mask = int.from_bytes(asked.method_mask, "little")
        return cls(
            asked.qpn,
            asked.mgmt_class,
            asked.mgmt_class_version,
            frozenset(method for method in range(128) if mask >> method & 1),
            oui,
            asked.rmpp_version,
            bool(flags & USER_RMPP),
        )

    def build(self) -> bytes:
        """Return the argument of REGISTER_AGENT2."""
        mask = sum(1 << method for method in self.methods)
        return _REGISTER2.build(
            qpn=self.qpn,
            mgmt_class=self.mgmt_class,
            mgmt_class_version=self.class_version,
            flags=USER_RMPP if self.user_rmpp else 0,
            method_mask=mask.to_bytes(16, "little"),
            oui=int.from_bytes(self.oui or b""),
            rmpp_version=self.rmpp_version,
        )
