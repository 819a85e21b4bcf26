"""System calls of programs that another process answers: seccomp user notification.

A filter lets every system call pass but ioctl with RDMA_VERBS_IOCTL. The kernel decides about all other numbers once,
when the filter is set, so that they cost nothing. Programs inherit the filter, across exec and without an environment.

Source: seccomp(2), seccomp_unotify(2); numbers of system calls: asm/unistd.h of each architecture.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from dataclasses import dataclass, field
from typing import Final

# --- the ioctl of libibverbs, RDMA_VERBS_IOCTL -------------------------------------------------------------
# libopamgt, and with it the Omni-Path tools, opens the verbs device to hear of asynchronous events. It gets a context
# and a descriptor on which nothing ever comes; all else is refused with EOPNOTSUPP. Sans-IO: what stands in the memory
# of the program comes in, what is to be written there goes out.
#
# Source: the public Linux headers rdma/rdma_user_ioctl_cmds.h and rdma/ib_user_ioctl_cmds.h.

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


# -----------------------------------------------------------------------------------------------------------

_SET_MODE_FILTER: Final = 1
_NEW_LISTENER: Final = 1 << 3
_SPEC_ALLOW: Final = 1 << 2
_NOTIF_RECV: Final = 0xC0502100
_NOTIF_SEND: Final = 0xC0182101
_NOTIF_ID_VALID: Final = 0x40082102
_NOTIF_ADDFD: Final = 0x40182103
_CONTINUE: Final = 1
_RETURN_NOTIFY: Final = 0x7FC00000
_RETURN_ALLOW: Final = 0x7FFF0000
_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_AT_NUMBER, _AT_ARCH, _AT_COMMAND = 0, 4, 24  # in struct seccomp_data; the lower half of the second argument

_NOTIF: Final = struct.Struct("<QIIiIQ6Q")  # id, pid, flags, nr, arch, instruction pointer, arguments
_RESPONSE: Final = struct.Struct("<QqiI")  # id, value, error, flags
_ADDFD: Final = struct.Struct("<QIIII")  # id, flags, our descriptor, wanted number, flags of the new one
_CLOEXEC: Final = os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Architecture:
    """The numbers of one architecture."""

    audit: int
    ioctl: int
    seccomp: int


ARCHITECTURES: Final = {
    "x86_64": Architecture(0xC000003E, 16, 317),
    "aarch64": Architecture(0xC00000B7, 29, 277),
    "riscv64": Architecture(0xC00000F3, 29, 277),
}
"""By the name that uname gives."""


def filter_program(architecture: Architecture) -> bytes:
    """Return the filter: instructions of classic BPF, 8 bytes each."""
    instructions = (
        (_LOAD, 0, 0, _AT_ARCH),
        (_EQUAL, 0, 5, architecture.audit),
        (_LOAD, 0, 0, _AT_NUMBER),
        (_EQUAL, 0, 3, architecture.ioctl),
        (_LOAD, 0, 0, _AT_COMMAND),
        (_EQUAL, 0, 1, RDMA_VERBS_IOCTL),
        (_RETURN, 0, 0, _RETURN_NOTIFY),
        (_RETURN, 0, 0, _RETURN_ALLOW),
    )
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def listen() -> int:
    """Filter the system calls of this process from now on; return the descriptor that answers them.

    It takes CAP_SYS_ADMIN in the user namespace, so that programs keep the right to set-user-ID.

    Raises:  OSError: EBUSY: a process above has such a filter already. ENOSYS: an unknown architecture.
    """
    architecture = ARCHITECTURES.get(os.uname().machine)
    if architecture is None:
        raise OSError(errno.ENOSYS, f"no numbers of system calls for {os.uname().machine}")
    program = filter_program(architecture)
    buffer = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for flags in (_NEW_LISTENER | _SPEC_ALLOW, _NEW_LISTENER):
        fd: int = libc.syscall(
            ctypes.c_long(architecture.seccomp),
            _SET_MODE_FILTER,
            flags,
            ctypes.create_string_buffer(head, len(head)),
        )
        if fd >= 0:
            os.set_inheritable(fd, False)
            return fd
        number = ctypes.get_errno()
        if number != errno.EINVAL:
            break
    raise OSError(number, f"seccomp: {os.strerror(number)}")


def answer_one(listener: int) -> None:
    """Answer one waiting call; do nothing if the program that made it has gone.

    Reads and writes the memory of the program, which can take as long as the program likes (it can serve its own page
    faults): not for the thread of an event loop.
    """
    notice = bytearray(_NOTIF.size)
    try:
        fcntl.ioctl(listener, _NOTIF_RECV, notice)
    except OSError:
        return
    id_, pid, _, _, _, _, fd, _, address, *_ = _NOTIF.unpack(notice)
    error, flags = errno.EOPNOTSUPP, 0
    try:
        if os.stat(f"/proc/{pid}/fd/{fd & 0xFFFFFFFF}").st_rdev != os.stat(os.devnull).st_rdev:
            error, flags = 0, _CONTINUE  # not a device of ours: the kernel's answer
        else:
            error = _serve(listener, id_, pid, address)
    except OSError:  # the memory that it names is not there, or it has gone
        error = errno.EFAULT
    with contextlib.suppress(OSError):  # killed meanwhile
        fcntl.ioctl(listener, _NOTIF_SEND, bytearray(_RESPONSE.pack(id_, 0, -error, flags)))


def _serve(listener: int, id_: int, pid: int, address: int) -> int:
    """Do what a call asks for; return its errno, 0 if it succeeds. Raises OSError."""
    memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        # the process whose memory is open is the one that waits: its number cannot have been given to another
        fcntl.ioctl(listener, _NOTIF_ID_VALID, struct.pack("<Q", id_))
        size = call_size(os.pread(memory, HEADER_SIZE, address))
        told = answer(address, os.pread(memory, size, address))
        for at, value in told.writes:
            os.pwrite(memory, value, at)
        if told.event_descriptor_at is not None:
            os.pwrite(
                memory, struct.pack("<Q", _give_event_descriptor(listener, id_)), told.event_descriptor_at
            )
        return told.error
    except OverflowError:  # an address that no process has
        return errno.EFAULT
    finally:
        os.close(memory)


def _give_event_descriptor(listener: int, id_: int) -> int:
    events = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        return int(fcntl.ioctl(listener, _NOTIF_ADDFD, bytearray(_ADDFD.pack(id_, 0, events, 0, _CLOEXEC))))
    finally:
        os.close(events)
