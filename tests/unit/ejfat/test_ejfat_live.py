"""The shells, as far as they go without privilege: node, application, sockets of the loopback."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
import time
from ipaddress import ip_address
from pathlib import Path

import pytest

from ejfat.base.addresses import IpAddress
from ejfat.base.errors import EjfatError
from ejfat.control.balancer import Policy
from ejfat.control.feedback import Gains
from ejfat.control.members import ReceiverCounters, Worker
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.demo.nodes import Ledger, event_data
from ejfat.events.event import Event, LostEvent, Segmenter
from ejfat.events.uri import Endpoint
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.live.feedback import Reporter
from ejfat.live.ports import frames_of
from ejfat.live.sockets import ReceivePlan, ReceiverThreads, SendPlan, send_events
from ejfat.wire.headers import SyncHeader, parse_lb
from opavnic_bench.ejfat.frames import event_frames, udp_packet

LB, SENDER, WORKER = (ip_address(f"10.0.0.{n}") for n in (1, 2, 3))
LB_MAC = bytes.fromhex("020000000001")
LOOPBACK = ip_address("127.0.0.1")


class Wire:
    """The network of an app: what it sends, and a worker that answers ARP and neighbor solicitations."""

    def __init__(
        self, tmp_path: Path | None = None, listen: str = "127.0.0.1:0", period_s: float = 60
    ) -> None:
        self.sent: list[bytes] = []
        self.mac_prefix = b"\x02\x00"
        self.silent = False
        plane = PlaneConfig(
            mac=int.from_bytes(LB_MAC, "big"),
            instances=(InstanceAddresses(LB, ip_address("fd00::1")),),
            policy=Policy(lead_s=0.1),
        )
        state = tmp_path / "state.db" if tmp_path else None
        self.app = LbApp(AppConfig(plane, listen, state=state, period_s=period_s), self.take)

    def take(self, frame: bytes) -> None:
        self.sent.append(frame)
        if frame[12:14] == b"\x08\x06" and not self.silent:
            mac = self.mac_prefix + frame[38:42]
            reply = frame[6:12] + mac + frame[12:20] + b"\0\2" + mac + frame[38:42] + frame[22:32]
            asyncio.get_running_loop().call_soon(self.app.receive, reply)
        elif frame[54:56] == b"\x87\x00" and not self.silent:
            reply = frame[6:12] + b"\x02\0\0\0\0\x06" + frame[12:54] + b"\x88\0\0\0\0\0\0\0" + frame[62:78]
            mac = self.mac_prefix + b"\0\0\0\x07"
            asyncio.get_running_loop().call_soon(self.app.receive, reply + b"\x02\x01" + mac)

    def tell(self, ip: IpAddress) -> None:
        """Announce the MAC that an address has now, as a bond does that fails over."""
        mac = self.mac_prefix + b"\0\0\0\x08"
        if ip.version == 4:
            frame = b"\xff" * 6 + mac + bytes.fromhex("0806000108000604 0001") + mac + ip.packed + bytes(6)
            self.app.receive(frame + ip.packed)
        else:
            front = b"\x33\x33\0\0\0\x01" + mac + b"\x86\xdd\x60\0\0\0\0\x20\x3a\xff" + ip.packed
            group = ip_address("ff02::1").packed
            body = b"\x88\0\0\0\x20\0\0\0" + ip.packed + b"\x02\x01" + mac
            self.app.receive(front + group + body)


async def test_node_resolves_workers_by_arp_and_by_neighbor_discovery() -> None:
    wire = Wire()
    neighbors = wire.app.node.neighbors
    assert await neighbors.resolve(WORKER) == b"\x02\x00" + WORKER.packed
    assert await neighbors.resolve(ip_address("fd00::3")) == b"\x02\0\0\0\0\x07"
    asked = len(wire.sent)
    assert await neighbors.resolve(WORKER) == neighbors.known(WORKER)
    assert len(wire.sent) == asked
    await neighbors.resolve(WORKER, afresh=True)
    assert len(wire.sent) == asked + 1, "a worker that registers may have another interface by now"
    asked += 1
    wire.silent = True
    assert await neighbors.resolve(ip_address("10.0.0.9"), timeout_s=0.03) is None
    assert len(wire.sent) == asked + 3


async def test_app_takes_sync_messages_for_its_reservation_and_counts_bad_ones() -> None:
    wire = Wire()
    await wire.app.start()
    uri = wire.app.reserve("run", [SENDER])
    sync = SyncHeader(source_id=1, event=1000, rate_hz=100, unix_ns=0).build()

    def frame(payload: bytes, port: int = 19531) -> bytes:
        return LB_MAC + b"\x02\0\0\0\0\2" + udp_packet(payload, src=SENDER, dst=LB, src_port=1, dst_port=port)

    for data in (frame(sync), frame(sync, 19538), frame(sync[:-1]), frame(b"LC")):
        wire.app.receive(data)
    counters = wire.app.pipeline.counters
    assert (counters.syncs, counters.bad_syncs, counters.balance) == (1, 2, 0)
    ticks = wire.app.plane.get(uri.lb_id).balancer.watch.ticks
    assert (ticks.latest(0.0) or 0) >= 1000
    await wire.app.stop()


async def test_app_restarted_from_its_state_forwards_the_same_way(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    await wire.app.start()
    uri = wire.app.reserve("run", [SENDER])
    balancer = wire.app.plane.get(uri.lb_id).balancer
    for number in (3, 4, 5):
        worker = Worker(name=f"w{number}", ip=ip_address(f"10.0.0.{number}"), port=5000, mac=number)
        wire.app.plane.program(balancer.register(worker, time.time())[1])
    wire.app.advance()
    frames = [
        event_frames(
            Segmenter(), b"x", tick=tick, data_id=1, event=tick, src=SENDER, dst=LB, dst_mac=0x020000000001
        )[0]
        for tick in range(300)
    ]
    before = [wire.app.pipeline.process(frame).frame for frame in frames]
    assert None not in before
    await wire.app.stop()
    assert [wire.app.pipeline.process(frame).frame for frame in frames] == before, (
        "only the services have ended"
    )
    again = Wire(tmp_path)
    again.app.program()
    assert [again.app.pipeline.process(frame).frame for frame in frames] == before, "they have not begun yet"
    await again.app.start()
    assert [again.app.pipeline.process(frame).frame for frame in frames] == before
    assert again.app.plane.tokens.find(uri.token).name == "run"
    other = ip_address("10.0.0.77")
    taken_over = again.app.reserve("run", [SENDER, other])
    assert taken_over.lb_id == uri.lb_id, "the same command line starts the program again"
    assert again.app.plane.get(uri.lb_id).balancer.senders == {SENDER, other}
    await again.app.stop()


def test_data_plane_of_the_program_needs_neither_grpc_nor_the_lab() -> None:
    program = "import sys, ejfat.cli.lb, ejfat.live.app, ejfat.live.carrier, ejfat.live.ports; "
    program += "unwanted = 'grpc', 'google.protobuf', 'opavnic.datapath.native_thread'; "
    program += "print([name for name in unwanted if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n", "they would lengthen the gap of a restart"


async def test_worker_registers_reports_and_deregisters_over_the_network() -> None:
    wire = Wire()
    await wire.app.start()
    uri = wire.app.reserve("run", [SENDER])
    request = pb.RegisterRequest(name="w", weight=1, ipAddress=str(WORKER), udpPort=5000)
    reporter = Reporter(uri, request, Gains(proportional=10.0), set_point=0.5)
    session = wire.app.plane.get(uri.lb_id).balancer.session
    number = int(await reporter.register())
    reported = asyncio.Event()

    def measure() -> tuple[float, ReceiverCounters]:
        if session(number).fill:
            reported.set()
        return 0.75, ReceiverCounters(packets_received=9)

    task = asyncio.create_task(reporter.report(measure))
    await asyncio.wait_for(reported.wait(), 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert session(number).control == pytest.approx(-2.5)
    assert session(number).counters.packets_received == 9
    await reporter.close()
    assert session(number).state == "gone"
    await wire.app.stop()


async def test_control_plane_that_goes_and_comes_back_is_told_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ejfat.live.feedback.REPORT_PERIOD_S", 0.001)
    address = f"unix:{tmp_path}/cp.sock"
    wire = Wire(tmp_path, address)
    await wire.app.start()
    uri = wire.app.reserve("run", [SENDER])
    request = pb.RegisterRequest(name="w", weight=1, ipAddress=str(WORKER), udpPort=5000)
    reporter = Reporter(uri, request, Gains(), control=address)
    await reporter.register()
    looked = asyncio.Semaphore(0)

    def measure() -> tuple[float, ReceiverCounters]:
        looked.release()
        return 0.0, ReceiverCounters()

    def told() -> list[str]:
        return [record.message for record in caplog.records if record.name == "ejfat.live.feedback"]

    async def reports_until(lines: int) -> None:
        while len(told()) < lines:
            await looked.acquire()
        for _ in range(10):
            await looked.acquire()

    task = asyncio.create_task(reporter.report(measure))
    await looked.acquire()
    await wire.app.stop()
    await asyncio.wait_for(reports_until(1), 20)
    assert len(told()) == 1
    assert told()[0].startswith("reports are refused, and go on: control plane: ")
    again = Wire(tmp_path, address)
    await again.app.start()
    await asyncio.wait_for(reports_until(2), 20)
    assert told()[1:] == ["reports are taken again"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await reporter.close()
    await again.app.stop()


async def test_control_plane_that_is_not_there_is_an_error() -> None:
    wire = Wire()
    await wire.app.start()
    uri = wire.app.reserve("run", [])
    await wire.app.stop()
    reporter = Reporter(uri, pb.RegisterRequest(name="w"), Gains())
    with pytest.raises(EjfatError, match=r"control plane: .*UNAVAILABLE"):
        await reporter.register()
    await reporter.close()


async def test_events_sent_over_the_loopback_arrive_on_several_ports_and_threads() -> None:
    rng = random.Random(3)
    receiver = ReceiverThreads(ReceivePlan(listen=Endpoint(LOOPBACK, 20480), port_bits=1, threads=2))
    receiver.start()
    wanted = {tick: rng.randbytes(5000) for tick in range(100, 120)}
    for port in (20480, 20481):
        segmenter = Segmenter(version=2)
        part = [data for tick, data in wanted.items() if tick % 2 == port % 2]
        plan = SendPlan(target=Endpoint(LOOPBACK, port), segmenter=segmenter, first_tick=port)
        sent = await send_events(plan, iter(part), lambda: 0)
        assert (sent.events, sent.bytes) == (10, 50_000)
    got = []
    async for what in receiver.results():
        assert isinstance(what, Event)
        got.append(what.data)
        if len(got) == 20:
            break
    assert sorted(got) == sorted(wanted.values())
    assert receiver.counters().packets == 20 * 4
    receiver.close()


async def test_sender_whose_ticks_come_to_their_end_says_so() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        sink.settimeout(20)
        target = Endpoint(LOOPBACK, sink.getsockname()[1])
        plan = SendPlan(
            target=target, segmenter=Segmenter(), first_tick=(1 << 64) - 2, sync=target, rate_hz=1e12
        )
        with pytest.raises(EjfatError, match=r"event 2 would have tick 0x1(0{16}): .*do not wrap"):
            await send_events(plan, iter([b"x"] * 3), lambda: 0)
        sync = SyncHeader.parse(sink.recv(100))
        assert (sync.event, sync.rate_hz) == ((1 << 64) - 2, (1 << 32) - 1)
        ticks = [parse_lb(sink.recv(100)).tick for _ in range(2)]
        assert ticks == [(1 << 64) - 2, (1 << 64) - 1]


async def test_event_with_a_missing_packet_is_reported_lost() -> None:
    receiver = ReceiverThreads(ReceivePlan(listen=Endpoint(LOOPBACK, 20490), timeout_s=0.01))
    receiver.start()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, remote_addr=("127.0.0.1", 20490)
    )
    transport.sendto(next(iter(Segmenter(mtu=200).payloads(bytes(500), tick=1, data_id=2, event=3))))
    async for what in receiver.results():
        assert isinstance(what, LostEvent)
        assert (what.key.event, what.key.data_id, what.missing) == (3, 2, ((136, 500),))
        break
    transport.close()
    receiver.close()


async def test_event_longer_than_the_receiver_takes_is_reported_lost_at_once() -> None:
    receiver = ReceiverThreads(ReceivePlan(listen=Endpoint(LOOPBACK, 20490), timeout_s=3600, max_event=499))
    receiver.start()
    plan = SendPlan(target=Endpoint(LOOPBACK, 20490), segmenter=Segmenter(mtu=200), first_tick=3)
    await send_events(plan, iter([bytes(500), bytes(499)]), lambda: 0)
    results = receiver.results()
    found = [await anext(results), await anext(results)]
    (lost,) = (what for what in found if isinstance(what, LostEvent))
    assert (lost.key.event, lost.length, lost.limit) == (3, 500, 499)
    assert [len(what.data) for what in found if isinstance(what, Event)] == [499]
    receiver.close()


async def test_receiver_on_a_port_in_use_is_refused() -> None:
    receiver = ReceiverThreads(ReceivePlan(listen=Endpoint(LOOPBACK, 20495)))
    receiver.start()
    with pytest.raises(EjfatError, match=r"cannot listen on 127\.0\.0\.1 port 20495"):
        ReceiverThreads(ReceivePlan(listen=Endpoint(LOOPBACK, 20494), port_bits=1)).start()
    receiver.close()


def test_checksum_that_the_kernel_left_open_is_filled_in() -> None:
    packet = LB_MAC + b"\x02\0\0\0\0\2" + udp_packet(b"hello", src=SENDER, dst=LB, src_port=1, dst_port=2)
    pseudo = (
        sum(int.from_bytes((SENDER.packed + LB.packed)[i : i + 2], "big") for i in range(0, 8, 2)) + 17 + 13
    )
    partial = packet[:40] + (pseudo % 0xFFFF).to_bytes(2, "big") + packet[42:]
    header = b"\x01\x00" + bytes(4) + (34).to_bytes(2, "little") + (6).to_bytes(2, "little")
    assert frames_of(header + partial) == [packet]
    assert frames_of(bytes(10) + partial) == [partial]


def test_ledger_finds_split_and_lost_events() -> None:
    ledger = Ledger()
    for tick in range(4):
        ledger.sent.add((tick, 1))
        ledger.forwarded(tick, "a" if tick % 2 else "b")
    ledger.forwarded(3, "b")
    ledger.arrived("b", 0, 1, event_data(0, 1, 50), 50)
    ledger.arrived("a", 1, 1, b"wrong", 50)
    assert ledger.split == [3]
    assert ledger.lost() == [(2, 1), (3, 1)]
    assert ledger.lost("b") == [(3, 1)]
    assert (ledger.damaged, ledger.twice, ledger.events) == (1, 0, 4)
    assert ledger.shares(0, 2, ["a", "b"]) == {"a": 0.3333, "b": 0.6667}


@pytest.mark.parametrize("worker", ["10.0.0.3", "fd00::3"])
@pytest.mark.parametrize("tells", [True, False])
async def test_worker_whose_mac_changes_gets_its_packets_without_registering_again(
    worker: str, tells: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ejfat.live.app._WATCH_S", 0.0)
    wire = Wire(period_s=0.05)
    await wire.app.start()
    uri = wire.app.reserve("run", [SENDER])
    reporter = Reporter(uri, pb.RegisterRequest(name="w", weight=1, ipAddress=worker, udpPort=5000), Gains())
    session = wire.app.plane.get(uri.lb_id).balancer.session(int(await reporter.register()))
    wire.mac_prefix = b"\x06\x00"
    if tells:
        wire.silent = True
        wire.tell(ip_address(worker))
    async with asyncio.timeout(20):
        while session.worker.mac >> 40 != 6:  # noqa: ASYNC110 - nothing announces an answer
            await asyncio.sleep(0.01)
    member = wire.app.pipeline.tables.v23["member_info_lookup_table"]
    assert [entry.args[0] >> 40 for entry in member] == [6]
    await reporter.close()
    await wire.app.stop()
