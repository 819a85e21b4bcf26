"""The calls of libibverbs, and the filter that picks them out of all system calls."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.devices.kernel.seccomp import (
    ARCHITECTURES,
    RDMA_VERBS_IOCTL,
    VerbsAnswer,
    answer,
    call_size,
    filter_program,
)

AT = 0x7FFE0000


def call(object_: int, method: int, *attributes: tuple[int, int, int]) -> bytes:
    """Return a call; attributes are id, length and data."""
    length = 24 + 16 * len(attributes)
    data = struct.pack("<4H8x2I", length, object_, method, len(attributes), 0, 0)
    return data + b"".join(struct.pack("<4HQ", id_, size, 0, 0, value) for id_, size, value in attributes)


def test_context_of_the_device() -> None:
    told = answer(AT, call(0, 3, (0, 4, 0x1000), (1, 8, 0x2000), (0x1001, 8, 0)))
    assert told == VerbsAnswer(writes=[(0x1000, struct.pack("<I", 1)), (0x2000, bytes(8))])
    assert answer(AT, call(0, 3, (0, 2, 0x1000))).error == errno.ENOSPC


def test_descriptor_for_events_is_written_into_the_call_itself() -> None:
    told = answer(AT, call(16, 0, (5, 0, 0), (0, 0, 0)))
    assert told == VerbsAnswer(event_descriptor_at=AT + 24 + 16 + 8)
    assert answer(AT, call(16, 0)).error == errno.EINVAL


@pytest.mark.parametrize(("object_", "method"), [(0, 0), (0, 1), (1, 0), (16, 1), (0x1000, 3)])
def test_everything_else_is_not_supported(object_: int, method: int) -> None:
    assert answer(AT, call(object_, method)) == VerbsAnswer(errno.EOPNOTSUPP)


@given(st.integers(0, 1 << 64), st.binary(max_size=200))
def test_any_bytes_have_an_answer(address: int, data: bytes) -> None:
    size = call_size(data)
    told = answer(address, data[:size] if size else data)
    assert told.error in (0, errno.EINVAL, errno.ENOSPC, errno.EOPNOTSUPP)


def test_length_that_does_not_match_the_attributes_is_refused() -> None:
    data = call(0, 3, (0, 4, 0x1000))
    assert answer(AT, data[:-1]).error == errno.EINVAL
    assert call_size(struct.pack("<4H8x2I", 24 + 16 * 4000, 0, 3, 4000, 0, 0)) == 0


def run_filter(program: bytes, number: int, arch: int, second: int) -> int:
    """Run a filter on one system call, as the kernel does; return its verdict."""
    data = struct.pack("<iIQ6Q", number, arch, 0, 0, second, 0, 0, 0, 0)
    at, loaded = 0, 0
    while True:
        code, yes, no, value = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        if code == 0x20:
            loaded = struct.unpack_from("<I", data, value)[0]
        elif code == 0x15:
            at += yes if loaded == value else no
        else:
            assert code == 0x06
            return int(value)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_filter_stops_that_ioctl_and_nothing_else(name: str) -> None:
    machine = ARCHITECTURES[name]
    program = filter_program(machine)
    notify, allow = 0x7FC00000, 0x7FFF0000
    verbs = RDMA_VERBS_IOCTL
    assert run_filter(program, machine.ioctl, machine.audit, verbs) == notify
    assert run_filter(program, machine.ioctl, machine.audit, verbs | 0xFFFFFFFF << 32) == notify, (
        "an int in C"
    )
    assert run_filter(program, machine.ioctl, machine.audit, 0x1B03) == allow
    assert run_filter(program, machine.ioctl + 1, machine.audit, verbs) == allow
    assert run_filter(program, machine.ioctl, 0x40000003, verbs) == allow, "a program of 32 bits"
