"""The ioctl of libibverbs, RDMA_VERBS_IOCTL, as far as a program needs it to open a device that only carries MADs.

libopamgt, and with it the Omni-Path tools, opens the verbs device to hear of asynchronous events. It gets a context and
a descriptor on which nothing ever comes; all else is refused with EOPNOTSUPP. Sans-IO: what stands in the memory of the
program comes in, what is to be written there goes out.

Source: the public Linux headers rdma/rdma_user_ioctl_cmds.h and rdma/ib_user_ioctl_cmds.h.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass, field
from typing import Final

RDMA_VERBS_IOCTL: Final = 0xC0181B01
HEADER_SIZE: Final = 24
ATTRIBUTE_SIZE: Final = 16
MAX_SIZE: Final = 4096
"""Bytes of a whole call, as in the kernel."""

# by struct: every program that enters a host imports this module, and need not wait for declared formats
_HEADER: Final = struct.Struct("<4H8x2I")  # length, object, method, number of attributes, driver, 0
_ATTRIBUTE: Final = struct.Struct("<4HQ")  # id, length, flags, data of an enum, data or address
_DATA_OFFSET: Final = 8
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
    length, _, _, attributes, *_ = _HEADER.unpack_from(header)
    whole = HEADER_SIZE + attributes * ATTRIBUTE_SIZE
    return whole if length == whole and whole <= MAX_SIZE else 0


def answer(address: int, call: bytes) -> VerbsAnswer:
    """Return what to do about a call of `call_size` bytes that stands at `address`."""
    if not call_size(call) or len(call) != call_size(call):
        return VerbsAnswer(errno.EINVAL)
    _, object_, method, number, *_ = _HEADER.unpack_from(call)
    attributes = {}
    for index in range(number):
        offset = HEADER_SIZE + index * ATTRIBUTE_SIZE
        id_, length, _, _, data = _ATTRIBUTE.unpack_from(call, offset)
        attributes[id_] = (length, data, address + offset + _DATA_OFFSET)
    if (object_, method) == (_DEVICE, _GET_CONTEXT):
        sizes = {_NUM_COMP_VECTORS: struct.pack("<I", 1), _CORE_SUPPORT: struct.pack("<Q", 0)}
        writes = []
        for id_, value in sizes.items():
            if id_ in attributes:
                length, data, _ = attributes[id_]
                if length < len(value):
                    return VerbsAnswer(errno.ENOSPC)
                writes.append((data, value))
        return VerbsAnswer(writes=writes)
    if (object_, method) == (_ASYNC_EVENT, _ASYNC_EVENT_ALLOC):
        if _ASYNC_FD not in attributes:
            return VerbsAnswer(errno.EINVAL)
        return VerbsAnswer(event_descriptor_at=attributes[_ASYNC_FD][2])
    return VerbsAnswer(errno.EOPNOTSUPP)
