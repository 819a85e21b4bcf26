"""What programs see at umad devices on a fabric: their own responses, timeouts, requests of others, errors."""

from __future__ import annotations

import errno
import struct

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.types import PortState
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.umad.abi import (
    ENABLE_PKEY,
    REGISTER_AGENT,
    REGISTER_AGENT2,
    UNREGISTER_AGENT,
    UmadError,
)
from hfi_sim.management.umad.file import MAX_UNREAD, UmadFile
from hfi_sim.management.umad.service import MAX_FILES, MAX_WAITING, UmadService
from unit.hfi_sim.fabric_pair import Pair, make_pair
from unit.hfi_sim.management.umad.umad_program import OUI, agent_on, ema, message, received, register2

BIG = 1 << 20


class Ground:
    """Two ports with a umad device each, and an agent of the EMA class at `b` that answers Gets."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pair: Pair = make_pair(Fabric(self.clock, timer_resolution_s=1e-3))
        self.a = UmadService(self.pair.a)
        self.b = UmadService(self.pair.b)
        self.pair.b.mad.register_agent(0x34, OUI, [1, 2], _echo)

    def ask(self, file: UmadFile, agent: int, mad: bytes | None = None, **options: int) -> None:
        lid = options.pop("lid", self.pair.b.lid)
        file.write(message(agent, ema() if mad is None else mad, lid, **options))
        self.clock.advance()


def _echo(request: MadRequest) -> bytes:
    return request.mad[:3] + b"\x81" + request.mad[4:]


@pytest.fixture
def ground() -> Ground:
    return Ground()


def refusal(call: object, *arguments: object) -> int:
    """Return the errno of a call that is refused."""
    with pytest.raises(UmadError) as info:
        call(*arguments)  # type: ignore[operator]
    return info.value.errno


def test_request_brings_its_response_under_the_tid_of_the_agent(ground: Ground) -> None:
    file = ground.a.open()
    agent = agent_on(file)
    ground.ask(file, agent, ema(tid=0x1234567800000007), timeout_ms=100)
    got = received(file.read(BIG) or b"")
    assert (got.agent_id, got.status, got.lid, got.length) == (agent, 0, ground.pair.b.lid, 64 + 2048)
    assert got.mad[3] == 0x81
    assert got.mad[12:16] == bytes.fromhex("00000007"), "the lower half is the program's"
    assert got.mad[8:12] != bytes.fromhex("12345678"), "the upper half is the agent's"
    assert file.read(BIG) is None
    assert ground.pair.fabric.balance() == {}


def test_two_programs_with_one_tid_get_their_own_responses(ground: Ground) -> None:
    files = [ground.a.open(), ground.a.open()]
    for number, file in enumerate(files):
        ground.ask(file, agent_on(file), ema(attr_id=0x11 + number), timeout_ms=100)
    attributes = [received(file.read(BIG) or b"").mad[16:18] for file in files]
    assert attributes == [b"\0\x11", b"\0\x12"]


def test_request_without_answer_comes_back_after_all_retries(ground: Ground) -> None:
    file = ground.a.open()
    agent = agent_on(file)
    ground.ask(file, agent, ema(method=3), lid=ground.pair.b.lid, timeout_ms=100, retries=2)
    ground.clock.advance(0.25)
    assert file.read(BIG) is None
    ground.clock.advance(0.1)
    back = file.read(BIG) or b""
    assert received(back).status == errno.ETIMEDOUT
    assert len(back) == 64 + 24, "the kernel gives the header of the MAD back, and no more"
    assert ground.pair.b.mad.counters.drops == {Drop.MAD_NO_AGENT: 3}
    ground.clock.advance(10)
    assert file.read(BIG) is None


def test_response_without_timeout_is_not_waited_for(ground: Ground) -> None:
    file = ground.a.open()
    ground.ask(file, agent_on(file), timeout_ms=0)
    assert file.read(BIG) is None
    assert ground.pair.a.mad.counters.drops == {Drop.MAD_UNMATCHED: 1}


def test_second_response_is_dropped(ground: Ground) -> None:
    file = ground.a.open()
    agent = agent_on(file)
    ground.ask(file, agent, timeout_ms=100)
    answer = received(file.read(BIG) or b"").mad
    ground.pair.b.mad.send(ground.pair.a.lid, answer)
    ground.clock.advance()
    assert file.read(BIG) is None
    assert ground.pair.a.mad.counters.drops == {Drop.MAD_UNMATCHED: 1}


def test_response_of_another_port_is_dropped(ground: Ground) -> None:
    file = ground.a.open()
    ground.ask(file, agent_on(file), ema(tid=9), lid=0x77, timeout_ms=100)  # nobody has this LID
    stranger = bytearray(ema(method=0x81, tid=1 << 32 | 9))
    ground.pair.b.mad.send(ground.pair.a.lid, bytes(stranger))
    ground.clock.advance()
    assert file.read(BIG) is None


def test_program_gets_requests_for_which_it_has_registered_and_answers(ground: Ground) -> None:
    server, client = ground.b.open(), ground.a.open()
    serving, asking = agent_on(server, 5, 6), agent_on(client)
    ground.ask(client, asking, ema(method=6, tid=5), timeout_ms=100)
    asked = received(server.read(BIG) or b"")
    assert (asked.agent_id, asked.lid, asked.mad[3]) == (serving, ground.pair.a.lid, 6)
    reply = asked.mad[:3] + b"\x86" + asked.mad[4:]
    server.write(message(serving, reply, asked.lid, pkey_index=asked.pkey_index))
    ground.clock.advance()
    assert received(client.read(BIG) or b"").mad[3] == 0x86
    assert ground.pair.fabric.balance() == {}


@pytest.mark.parametrize(
    "argument",
    [
        register2(0x34, 1),  # the agent of the driver has Get
        register2(0x34, 5, oui=0),
        register2(0x34, 5, oui=0x1000000),
        register2(0x34, 5, version=0x83),
        register2(0x34, 5, flags=2),
        register2(0x34, 5, rmpp=2),
        register2(0x34, 5, qpn=2),
        register2(0x34, 5, qpn=0),
        register2(0x01, 5, qpn=1),
        register2(0x04, 1, rmpp=1),  # performance management has no RMPP
        register2(0x50, 1),
        register2(0, flags=1),
        b"",
    ],
)
def test_registration_that_the_kernel_refuses_is_refused(ground: Ground, argument: bytes) -> None:
    file = ground.b.open()
    assert refusal(file.ioctl, REGISTER_AGENT2, argument) == errno.EINVAL
    assert agent_on(ground.b.open(), 5) == 0, "and takes nothing"


def test_method_has_one_agent_until_its_program_has_gone(ground: Ground) -> None:
    first, second = ground.a.open(), ground.a.open()
    agent_on(first, 5)
    assert refusal(second.ioctl, REGISTER_AGENT2, register2(0x34, 5)) == errno.EINVAL
    assert agent_on(second, 5, version=2) == 0, "another version of the class is another agent's"
    first.close()
    assert agent_on(second, 5) == 1
    assert len(ground.a.files) == 1


OLD = REGISTER_AGENT, struct.pack("<5I3B3sBx", 0, 0, 0, 0, 0, 1, 0x34, 0x80, OUI, 0)
NEW = REGISTER_AGENT2, register2(0x34)


@pytest.mark.parametrize(("calls", "header"), [([OLD], 56), ([NEW], 64), ([OLD, NEW], 56)])
def test_first_registration_decides_whether_the_header_has_a_pkey(
    ground: Ground, calls: list[tuple[int, bytes]], header: int
) -> None:
    file = ground.a.open()
    for call in calls:
        file.ioctl(*call)
    data = message(len(calls) - 1, ema(), ground.pair.b.lid, timeout_ms=100)
    file.write(data[:header] + data[64:])
    ground.clock.advance()
    assert len(file.read(BIG) or b"") == header + 2048
    assert refusal(file.ioctl, ENABLE_PKEY, b"") == errno.EINVAL, "too late"


def test_refused_registration_leaves_the_header_as_it_was(ground: Ground) -> None:
    file = ground.a.open()
    assert refusal(file.ioctl, REGISTER_AGENT2, register2(0x50, 1)) == errno.EINVAL
    file.ioctl(*OLD)
    assert refusal(file.read, 55) == errno.EINVAL
    assert file.read(56) is None


def test_unknown_flags_are_answered_with_those_that_are_known(ground: Ground) -> None:
    with pytest.raises(UmadError) as raised:
        ground.a.open().ioctl(REGISTER_AGENT2, register2(0x34, flags=6))
    assert raised.value.head == register2(0x34, flags=1)


def test_file_has_32_agents_and_gives_the_lowest_free_number(ground: Ground) -> None:
    file = ground.a.open()
    assert [agent_on(file) for _ in range(32)] == list(range(32))
    for asked, error in (
        (register2(0x34), errno.ENOMEM),
        (register2(0x50), errno.ENOMEM),
        (register2(0x34, qpn=2), errno.EINVAL),
        (register2(0x34, flags=2), errno.EINVAL),
    ):
        assert refusal(file.ioctl, REGISTER_AGENT2, asked) == error
    file.ioctl(UNREGISTER_AGENT, struct.pack("<I", 4))
    assert refusal(file.ioctl, UNREGISTER_AGENT, struct.pack("<I", 4)) == errno.EINVAL
    assert agent_on(file) == 4
    assert refusal(file.ioctl, 0x1B77, b"") == errno.ENOTTY


def test_write_that_makes_no_sense_is_refused(ground: Ground) -> None:
    file = ground.a.open()
    agent = agent_on(file)
    lid = ground.pair.b.lid
    assert refusal(file.write, b"") == errno.EINVAL
    assert refusal(file.write, message(agent, ema()[:39], lid)) == errno.EINVAL
    assert refusal(file.write, message(agent, ema() + b"x", lid)) == errno.EINVAL
    assert refusal(file.write, message(7, ema(), lid)) == errno.EIO
    assert refusal(file.write, message(32, ema(), lid)) == errno.EINVAL
    file.write(message(agent, ema(), 0x77, timeout_ms=100))
    assert refusal(file.write, message(agent, ema(), 0x77, timeout_ms=100)) == errno.EINVAL


def test_read_into_a_small_buffer_keeps_the_message(ground: Ground) -> None:
    file = ground.a.open()
    ground.ask(file, agent_on(file), timeout_ms=100)
    assert refusal(file.read, 63) == errno.EINVAL
    assert refusal(file.read, 64 + 2047) == errno.EINVAL
    assert file.read(64 + 2048) is not None


def test_unregistered_agent_gets_nothing_any_more(ground: Ground) -> None:
    file = ground.a.open()
    agent = agent_on(file)
    ground.ask(file, agent, lid=0x77, timeout_ms=100)
    file.ioctl(UNREGISTER_AGENT, struct.pack("<I", agent))
    ground.clock.advance(1.0)
    assert file.read(BIG) is None


PERMISSIVE = 0xFFFFFF


@pytest.mark.parametrize("state", PortState)
@pytest.mark.parametrize("pkeys", [(0x8001, 0x7FFF, 0xFFFF), (0x7FFF,)])
@pytest.mark.parametrize("lid", [0, PERMISSIVE])
@pytest.mark.parametrize(
    ("base", "version", "mgmt_class", "attr_id"),
    [
        (1, 1, 0x01, 0x11),
        (1, 1, 0x81, 0x11),
        (1, 1, 0x04, 0x01),
        (0x80, 0x80, 0x81, 0x11),
        (0x80, 0x80, 0x04, 0x01),
    ],
)
def test_own_port_answers_in_any_state_before_it_has_a_lid(
    ground: Ground,
    state: PortState,
    pkeys: tuple[int, ...],
    lid: int,
    base: int,
    version: int,
    mgmt_class: int,
    attr_id: int,
) -> None:
    port = ground.pair.a
    port.set_lid(0)
    port.set_pkeys(pkeys)
    port.set_state(state)
    sent = port.tx.in_packets
    file = ground.a.open()
    agent = agent_on(file, mgmt_class=mgmt_class, version=version, qpn=0 if mgmt_class in (0x01, 0x81) else 1)
    size, lids = (256, 4) if base == 1 else (2048, 8)
    mad = struct.pack(">4BHHQHHI", base, mgmt_class, version, 1, 0, 0, 7, attr_id, 0, 0) + bytes(8)
    mad += b"\xff" * lids  # the directed route's LIDs: it begins and ends at its nodes
    index = 0 if base == 1 else pkeys.index(0x7FFF)
    ground.ask(file, agent, mad.ljust(size, b"\0"), lid=lid, timeout_ms=100, pkey_index=index)
    answer = received(file.read(BIG) or bytes(64))
    assert (answer.status, answer.mad[3]) == (0, 0x81)
    assert answer.mad[4:6] == (b"\x80\0" if mgmt_class == 0x81 else b"\0\0"), (
        "of a directed route: its direction"
    )
    assert port.tx.in_packets == sent, "nothing leaves the host"


def test_large_lid_stands_in_the_gid_both_ways(ground: Ground) -> None:
    for port, lid in ((ground.pair.a, 0x1BEEF), (ground.pair.b, 0xC0DE5)):
        port.set_lid(lid)  # type: ignore[arg-type]
    ground.pair.switch.program({0x1BEEF: 1, 0xC0DE5: 2}, {})
    file = ground.a.open()
    ground.ask(file, agent_on(file), lid=0xC0DE5, timeout_ms=100)
    got = received(file.read(BIG) or b"")
    assert (got.has_grh, got.lid) == (1, 0x0DE5)
    assert int.from_bytes(got.gid[8:]) == 0x66A << 40 | 0xC0DE5


def test_pkey_index_is_that_of_the_ports_table(ground: Ground) -> None:
    for port in (ground.pair.a, ground.pair.b):
        ground.pair.sm.set_pkeys(port, [0x8002])
    index = ground.pair.a.pkeys.entries.index(0x8002)  # type: ignore[arg-type]
    file = ground.a.open()
    agent = agent_on(file)
    ground.ask(file, agent, timeout_ms=100, pkey_index=index)
    assert received(file.read(BIG) or b"").pkey_index == index
    ground.ask(file, agent, timeout_ms=100, pkey_index=31)
    ground.clock.advance(1.0)
    assert received(file.read(BIG) or b"").status == errno.ETIMEDOUT, "an entry that is not there"
    assert ground.pair.fabric.balance() == {}


def test_program_that_does_not_read_loses_mads_and_they_are_counted(ground: Ground) -> None:
    server = ground.a.open()
    agent_on(server, 5)
    for tid in range(MAX_UNREAD // 2048 + 3):
        ground.pair.b.mad.send(ground.pair.a.lid, ema(method=5, tid=tid))
        ground.clock.advance(1e-3)
    assert ground.pair.a.mad.counters.drops == {Drop.MAD_UNREAD: 3}
    assert ground.pair.fabric.balance() == {}
    assert received(server.read(BIG) or b"").mad[8:16] == bytes(8), "the first is still there"


def test_requests_that_nobody_answers_do_not_fill_the_memory(ground: Ground) -> None:
    file = ground.a.open()
    agent = agent_on(file)
    for tid in range(MAX_WAITING // 2048):
        file.write(message(agent, ema(tid=tid), 0x77, timeout_ms=1000))
    late = message(agent, ema(tid=1 << 20), 0x77, timeout_ms=1000)
    assert refusal(file.write, late) == errno.ENOMEM
    ground.clock.advance(2.0)
    assert file.write(late), "as soon as they have come back"
    assert file.waiting_bytes == 2048
    file.close()
    assert file.waiting_bytes == 0


def test_program_that_repeats_without_end_leaves_the_lab_time_for_others(ground: Ground) -> None:
    file = ground.a.open()
    agent = agent_on(file)
    for tid in range(64):
        ground.ask(file, agent, ema(tid=tid), lid=0x77, timeout_ms=1, retries=0xFFFFFFFF)
    ground.clock.advance(0.5)
    assert ground.pair.a.mad.sent > 64 * 100
    file.close()
    sent = ground.pair.a.mad.sent
    ground.clock.advance(5.0)
    assert ground.pair.a.mad.sent == sent


def test_agent_of_the_process_comes_before_one_of_a_program(ground: Ground) -> None:
    server, client = ground.b.open(), ground.a.open()
    agent_on(server, 5, 6)
    registration = ground.pair.b.mad.register_agent(0x34, OUI, [6], _echo)
    ask = agent_on(client)
    ground.ask(client, ask, ema(method=6), timeout_ms=100)
    assert received(client.read(BIG) or b"").mad[3] == 0x81
    ground.pair.b.mad.unregister_agent(registration)
    ground.ask(client, ask, ema(method=6), timeout_ms=100)
    assert received(server.read(BIG) or b"").mad[3] == 6


@pytest.mark.breaks_core
def test_mad_stack_that_fails_ends_every_call_with_an_error(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ground.a.open()
    agent = agent_on(file)
    monkeypatch.setattr(UmadFile, "give_back", lambda *_: 1 / 0)
    ground.ask(file, agent, lid=0x77, timeout_ms=100)
    ground.clock.advance(1.0)
    assert refusal(file.read, BIG) == errno.EIO


def test_device_is_open_a_limited_number_of_times(ground: Ground) -> None:
    files = [ground.a.open() for _ in range(MAX_FILES)]
    assert refusal(ground.a.open) == errno.ENFILE
    files[0].close()
    ground.a.open()


def test_device_that_goes_away_ends_every_call_with_an_error(ground: Ground) -> None:
    file = ground.a.open()
    agent = agent_on(file)
    news: list[None] = []
    file.on_news = lambda: news.append(None)
    ground.a.close()
    assert news == [None], "whoever waits is woken"
    assert refusal(file.read, BIG) == errno.EIO
    assert refusal(file.write, message(agent, ema(), 1)) == errno.EIO
    assert refusal(file.ioctl, REGISTER_AGENT2, register2(0x34)) == errno.EPIPE
    file.close()
    ground.pair.b.mad.send(ground.pair.a.lid, ema(method=5))
    ground.clock.advance()
    assert ground.pair.a.mad.counters.drops == {Drop.MAD_NO_AGENT: 1}
