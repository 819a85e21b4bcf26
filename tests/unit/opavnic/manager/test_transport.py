"""Requests, responses and agents of the manager over the messages of a umad device."""

from __future__ import annotations

import errno
import random

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.types import PortState
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.umad.abi import HEADER_SIZE, UmadHeader
from hfi_sim.wire.mad.header import TID, Mad, MadClass, MadHeader, Method
from opavnic.manager.port_files import PortReading
from opavnic.manager.transport import AGENTS, UmadTransport
from vema.base.types import EMA_OUI
from vema.em.core.messages import build_request


class Device:
    """What the transport writes."""

    def __init__(self, lid: int = 2) -> None:
        self.clock = ManualClock()
        self.written: list[bytes] = []
        port = PortReading("umad0", "hfi1_0", 1, 1, lid, 1, 0, PortState.ACTIVE, (0x8001, 0xFFFF))
        self.transport = UmadTransport(self.clock, lambda: port)
        self.transport.connect(self.written.append, range(10, 10 + len(AGENTS)))
        self.answers: list[Mad | None] = []

    def ask(self, lid: int = 3, **options: float) -> bytes:
        self.transport.submit(lid, build_request(Method.GET, 1), self.answers.append, **options)  # type: ignore[arg-type]
        return self.written[-1]

    def reply(self, asked: bytes, *, status: int = 0, hi_tid: int = 77, **changes: int) -> None:
        mad = bytearray(asked[HEADER_SIZE:])
        mad[3] = Method.GET_RESP
        mad[TID] = hi_tid.to_bytes(4) + mad[TID][4:]
        for name, value in changes.items():
            mad[{"mgmt_class": 1, "method": 3}[name]] = value
        self.transport.take(UmadHeader(agent_id=10, status=status, lid=3).build(with_pkey=True) + bytes(mad))


def test_request_has_the_index_of_the_management_partition_timeout_and_retries() -> None:
    device = Device()
    message = device.ask(timeout_s=0.25, retries=4)
    header = UmadHeader.parse(message, with_pkey=True)
    assert (header.agent_id, header.timeout_ms, header.retries, header.lid) == (10, 250, 4, 3)
    assert header.pkey_index == 1
    assert len(message) == HEADER_SIZE + 2048
    assert message[32] == 0, "no GRH where 16 bits hold both LIDs"


@pytest.mark.parametrize(
    ("own", "to", "gid"), [(2, 0xBFFF, 0), (2, 0xC000, 1), (2, 0x12345, 1), (0x12345, 3, 1)]
)
def test_grh_is_there_where_one_of_the_lids_is_extended(own: int, to: int, gid: int) -> None:
    message = Device(own).ask(to)
    assert message[32] == gid
    assert UmadHeader.parse(message, with_pkey=True).lid == to
    if gid:
        assert message[36:52].hex() == f"fe8000000000000000066a{to:010x}"


def test_response_comes_back_once_whatever_the_upper_half_of_its_id() -> None:
    device = Device()
    asked = device.ask()
    device.reply(asked)
    device.reply(asked)
    assert len(device.answers) == 1
    assert device.answers[0] is not None
    assert device.transport.counters.foreign == 1


def test_response_of_another_class_is_foreign_and_the_request_stays_open() -> None:
    device = Device()
    asked = device.ask()
    device.reply(asked, mgmt_class=MadClass.SUBN_ADM)
    assert device.answers == []
    device.reply(asked)
    assert len(device.answers) == 1


def test_request_that_comes_back_without_a_response_is_given_up() -> None:
    device = Device()
    asked = device.ask()
    device.reply(asked, status=errno.ETIMEDOUT, method=Method.GET)
    assert device.answers == [None]
    assert device.transport.counters.timed_out == 1


def test_refused_request_is_given_up() -> None:
    device = Device()
    device.transport.refused(device.ask(), OSError(errno.ENOMEM, "no"))
    assert device.answers == [None]


def test_device_that_goes_gives_up_everything_and_later_requests_after_their_time() -> None:
    device = Device()
    device.ask()
    device.transport.disconnect()
    assert device.answers == [None]
    device.transport.submit(3, build_request(Method.GET, 1), device.answers.append, timeout_s=1.0, retries=1)
    assert len(device.written) == 1
    device.clock.advance(1.9)
    assert device.answers == [None]
    device.clock.advance(0.2)
    assert device.answers == [None, None]


def test_trap_reaches_its_agent_with_lid_and_partition_and_is_answered() -> None:
    device = Device()
    traps: list[MadRequest] = []

    def take(request: MadRequest) -> bytes:
        traps.append(request)
        return b"\x80\x34\x80\x07".ljust(64, b"\0")

    device.transport.register_agent(MadClass.EMA, EMA_OUI, [Method.TRAP], take)
    mad = (
        MadHeader(mgmt_class=MadClass.EMA, method=Method.TRAP, tid=9, attr_id=2).build() + bytes(13) + EMA_OUI
    )
    header = UmadHeader(agent_id=10, lid=0x54321, sl=2, pkey_index=0)
    device.transport.take(header.build(with_pkey=True) + mad)
    assert [(trap.slid, trap.sl, trap.pkey, len(trap.mad)) for trap in traps] == [(0x54321, 2, 0x8001, 2048)]
    assert UmadHeader.parse(device.written[0], with_pkey=True).lid == 0x54321


def test_any_bytes_from_the_device_are_taken_or_counted() -> None:
    device, rng = Device(), random.Random(5)
    asked = device.ask()
    for _ in range(2000):
        data = bytearray(rng.choice((rng.randbytes(rng.randrange(200)), asked)))
        for _ in range(rng.randrange(4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        device.transport.take(bytes(data))
    assert device.transport.counters.received == 2000


def test_mads_of_base_version_1_are_filled_up() -> None:
    device = Device()
    mad = MadHeader(
        base_version=1, mgmt_class=MadClass.SUBN_ADM, class_version=2, method=Method.GET, tid=0, attr_id=1
    ).build() + bytes(40)
    device.transport.submit(1, Mad.parse(mad), device.answers.append)
    assert len(device.written[0]) == HEADER_SIZE + 256
