"""The ioctl of libibverbs, RDMA_VERBS_IOCTL, as far as a program needs it to open a device that only carries MADs.

libopamgt, and with it the Omni-Path tools, opens the verbs device to hear of asynchronous events. It gets a context and
a descriptor on which nothing ever comes; all else is refused with EOPNOTSUPP. Sans-IO: what stands in the memory of the
program comes in, what is to be written there goes out.

Source: the public Linux headers rdma/rdma_user_ioctl_cmds.h and rdma/ib_user_ioctl_cmds.h.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Final

from hfi_sim.wire.header import structure

RDMA_VERBS_IOCTL: Final = 0xC0181B01
MAX_SIZE: Final = 4096
"""Bytes of a whole call, as in the kernel."""

_HEADER: Final = structure(
    "ib_uverbs_ioctl_hdr",
    "u16 length, object_id, method_id, num_attrs; u64 reserved1; u32 driver_id, reserved2",
    "little",
    __name__,
)
_ATTRIBUTE: Final = structure(
    "ib_uverbs_attr", "u16 attr_id, len, flags, attr_data; u64 data", "little", __name__
)
HEADER_SIZE: Final = _HEADER.size
_DATA_OFFSET: Final = _ATTRIBUTE.place("data").offset
_DEVICE: Final = 0
_GET_CONTEXT: Final = 3
_ASYNC_EVENT: Final = 16
_ASYNC_EVENT_ALLOC: Final = 0
_NUM_COMP_VECTORS: Final = 0
_CORE_SUPPORT: Final = 1
_ASYNC_FD: Final = 0


@dataclass(frozen=True, slots=True)
class VerbsAnswer:
    """What to do about a call."""

    error: int = 0
    writes: list[tuple[int, bytes]] = field(default_factory=list)
    """Addresses in the program, and what to write there."""
    event_descriptor_at: int | None = None
    """The address that gets the number of a new descriptor of the program, 8 bytes; None: it gets none."""


def call_size(header: bytes) -> int:
    """Return how many bytes a call has, 0 where the header makes no sense. Args: header: its first bytes."""
    if len(header) < HEADER_SIZE:
        return 0
    call = _HEADER.parse(header)
    whole = HEADER_SIZE + call.num_attrs * _ATTRIBUTE.size
    return whole if call.length == whole and whole <= MAX_SIZE else 0


def answer(address: int, call: bytes) -> VerbsAnswer:
    """Return what to do about a call of `call_size` bytes that stands at `address`."""
    if not call_size(call) or len(call) != call_size(call):
        return VerbsAnswer(errno.EINVAL)
    head = _HEADER.parse(call)
    attributes = {}
    for offset in range(HEADER_SIZE, len(call), _ATTRIBUTE.size):
        found = _ATTRIBUTE.parse(call[offset:])
        attributes[found.attr_id] = (found.len, found.data, address + offset + _DATA_OFFSET)
    asked = head.object_id, head.method_id
    if asked == (_DEVICE, _GET_CONTEXT):
        sizes = {_NUM_COMP_VECTORS: (1).to_bytes(4, "little"), _CORE_SUPPORT: bytes(8)}
        writes = []
        for id_, value in sizes.items():
            if id_ in attributes:
                length, data, _ = attributes[id_]
                if length < len(value):
                    return VerbsAnswer(errno.ENOSPC)
                writes.append((data, value))
        return VerbsAnswer(writes=writes)
    if asked == (_ASYNC_EVENT, _ASYNC_EVENT_ALLOC):
        if _ASYNC_FD not in attributes:
            return VerbsAnswer(errno.EINVAL)
        return VerbsAnswer(event_descriptor_at=attributes[_ASYNC_FD][2])
    return VerbsAnswer(errno.EOPNOTSUPP)
