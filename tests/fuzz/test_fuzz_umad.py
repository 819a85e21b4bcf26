"""Whatever a program writes to a umad device, and whatever the fabric sends to it: an errno or a drop, no exception.

Nothing is left when the programs have closed their files, and no packet is lost uncounted.
"""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.umad.abi import (
    ENABLE_PKEY,
    HEADER_SIZE,
    REGISTER_AGENT,
    REGISTER_AGENT2,
    UNREGISTER_AGENT,
    UmadError,
    UmadHeader,
)
from hfi_sim.management.umad.service import UmadService
from unit.hfi_sim.fabric_pair import make_pair
from unit.hfi_sim.management.umad.umad_program import message, register2

COMMANDS = (ENABLE_PKEY, REGISTER_AGENT, REGISTER_AGENT2, UNREGISTER_AGENT, 0, 0x1B05)
CLASSES = (0x01, 0x03, 0x04, 0x32, 0x34, 0x81)
METHODS = (1, 2, 3, 5, 7, 0x12, 0x81, 0x92)

registrations = st.builds(
    lambda cls, methods, rmpp, flags, qpn: register2(cls, *methods, rmpp=rmpp, flags=flags, qpn=qpn),
    st.sampled_from(CLASSES),
    st.lists(st.sampled_from([m for m in METHODS if m < 128]), max_size=3),
    st.integers(0, 1),
    st.integers(0, 1),
    st.integers(0, 1),
)
mads = st.builds(
    lambda base, cls, method, tid, rmpp, rest: (
        struct.pack(">4BHHQHHI", base, cls, 0x80, method, 0, 0, tid, 0x11, 0, 0) + rmpp + rest
    ),
    st.sampled_from((0x80, 1, 0x81)),
    st.sampled_from(CLASSES),
    st.sampled_from(METHODS),
    st.builds(lambda high, low: high << 32 | low, st.integers(0, 4), st.integers(0, 2)),
    st.builds(
        lambda kind, flags, segment, length: struct.pack(">4B2I", 1, kind, flags, 0, segment, length),
        st.integers(0, 5),
        st.integers(0, 255),
        st.one_of(st.integers(0, 3), st.just(0xFFFFFFFF)),
        st.one_of(st.integers(0, 3000), st.just(0xFFFFFFFF)),
    ),
    st.one_of(st.binary(max_size=20), st.integers(0, 6000).map(lambda n: b"\0\0\x06\x6a" + bytes(n))),
)
writes = st.builds(
    lambda agent, mad, lid, timeout_ms, retries, index: message(
        agent, mad, lid, timeout_ms=timeout_ms, retries=retries, pkey_index=index
    ),
    st.integers(0, 3),
    mads,
    st.sampled_from((0, 1, 2, 3, 0xC001, 0xFFFF, 0xFFFFFF)),
    st.sampled_from((0, 50, 0xFFFFFFFF)),
    st.sampled_from((0, 2, 0xFFFFFFFF)),
    st.sampled_from((0, 1, 40)),
)
steps = st.one_of(
    st.tuples(
        st.just("ioctl"), st.integers(0, 3), st.sampled_from(COMMANDS), registrations | st.binary(max_size=48)
    ),
    st.tuples(st.just("write"), st.integers(0, 3), writes | st.binary(max_size=120)),
    st.tuples(st.just("read"), st.integers(0, 3), st.sampled_from((0, 64, 64 + 256, 64 + 2048, 1 << 20))),
    st.tuples(st.just("close"), st.integers(0, 3)),
    st.tuples(st.just("send"), st.booleans(), mads),
    st.tuples(st.just("wait"), st.sampled_from((0.0, 0.06, 45.0))),
)


headers = st.builds(
    UmadHeader,
    agent_id=st.integers(0, 2**32 - 1),
    status=st.integers(0, 2**32 - 1),
    timeout_ms=st.integers(0, 2**32 - 1),
    retries=st.integers(0, 2**32 - 1),
    length=st.integers(0, 2**32 - 1),
    qpn=st.integers(0, 2**32 - 1),
    lid=st.integers(0, LID_PERMISSIVE),
    sl=st.integers(0, 31),
    path_bits=st.integers(0, 255),
    pkey_index=st.integers(0, 2**16 - 1),
)


@given(headers, st.integers(0, 64))
def test_header_is_read_back_as_it_was_built(header: UmadHeader, size: int) -> None:
    data = header.build(with_pkey=True)
    assert UmadHeader.parse(data, with_pkey=True) == header
    if size < HEADER_SIZE:
        with pytest.raises(UmadError, match=f"^{size} bytes are shorter than the header"):
            UmadHeader.parse(data[:size], with_pkey=True)


@given(st.lists(steps, max_size=40))
def test_any_calls_of_programs_are_answered(calls: list[tuple[object, ...]]) -> None:
    clock = ManualClock()
    pair = make_pair(Fabric(clock, timer_resolution_s=1e-3))
    services = [UmadService(pair.a), UmadService(pair.b)]
    files = [services[number & 1].open() for number in range(4)]
    for word, *arguments in calls:
        with contextlib.suppress(UmadError):
            if word == "send":
                ports = (pair.a, pair.b) if arguments[0] else (pair.b, pair.a)
                with contextlib.suppress(ValueError):  # longer than a MAD: a caller's mistake
                    ports[0].mad.send(ports[1].lid, arguments[1])  # type: ignore[arg-type]
            elif word == "wait":
                clock.advance(arguments[0])  # type: ignore[arg-type]
                continue
            else:
                file = files[arguments[0]]  # type: ignore[call-overload]
                if word == "ioctl":
                    file.ioctl(*arguments[1:])
                elif word == "write":
                    file.write(arguments[1])
                elif word == "read":
                    file.read(arguments[1])
                else:
                    file.close()
                    files[arguments[0]] = services[arguments[0] & 1].open()  # type: ignore[call-overload]
        clock.advance()
    for file in files:
        file.close()
    assert [len(service.files) for service in services] == [0, 0]
    clock.advance(100.0)
    assert pair.fabric.balance() == {}
    sent = pair.a.mad.sent, pair.b.mad.sent
    clock.advance(100.0)
    assert (pair.a.mad.sent, pair.b.mad.sent) == sent, "nobody repeats for programs that have gone"
