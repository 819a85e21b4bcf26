"""Bytes that look like a magic number, wherever they stand: what is not a sync message is data, and data arrives."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.base.addresses import IpAddress
from ejfat.base.drops import PipelineCounters
from ejfat.control.members import Worker
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.pipeline.native import NativePipeline
from ejfat.wire.headers import LB_PORT, SyncHeader
from native_module import needs_native
from opavnic_bench.ejfat.frames import udp_packet
from unit.ejfat.due_work import advance_all
from unit.ejfat.pipelines import IMPLEMENTATIONS

LB_MAC, SENDER_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
SYNC_PORT = 19531
ADDRESSES: dict[int, tuple[IpAddress, IpAddress, IpAddress]] = {
    4: (ip_address("10.0.0.1"), ip_address("10.0.0.2"), ip_address("10.0.0.3")),
    # the third group of this one stands where an IPv4 frame without options has its UDP payload
    6: (ip_address("fd00:0:4c43::1"), ip_address("fd00:0:4c43::2"), ip_address("fd00::3")),
}
MAGICS = (b"LC", b"LB", b"SC", b"LC\x02\x00", b"LB\x01", b"LB\x02")
SYNC = SyncHeader(source_id=1, event=1000, rate_hz=100, unix_ns=0).build()


class Way:
    """A load balancer with one sender and one worker, and what leaves it."""

    def __init__(self, implementation: str, version: int) -> None:
        lb, self.sender, worker = ADDRESSES[version]
        addresses = InstanceAddresses(lb, None) if version == 4 else InstanceAddresses(None, lb)
        plane = PlaneConfig(mac=int.from_bytes(LB_MAC, "big"), instances=(addresses,))
        self.lb = lb
        self.sent: list[bytes] = []
        config = AppConfig(plane, pipeline="native" if implementation == "native" else "python")
        self.app = LbApp(config, self.sent.append, now=lambda: 1000.0)
        self.app.program()
        reservation = self.app.plane.reserve("run", senders=[self.sender], now=1000.0)
        one = Worker(name="w", ip=worker, port=5000, mac=3)
        self.app.plane.program(reservation.balancer.register(one, 1000.0)[1])
        advance_all(self.app.plane, 1000.0)

    def put(self, frame: bytes) -> list[bytes]:
        """Return what leaves because of a frame, as an interface would see it."""
        self.sent.clear()
        pipeline = self.app.pipeline
        if isinstance(pipeline, NativePipeline):
            out = pipeline.core.take(frame)
            if out is not None:
                self.sent.append(out)
            for punt in pipeline.core.take_punts():
                self.app.receive(punt)
        else:
            self.app.receive(frame)
        return list(self.sent)

    def frame(self, payload: bytes, *, port: int = LB_PORT, options: bytes = b"") -> bytes:
        packet = udp_packet(payload, src=self.sender, dst=self.lb, src_port=LB_PORT, dst_port=port)
        if options:
            length = int.from_bytes(packet[4:6], "big") + len(options)
            first = 0x45 + len(options) // 4
            packet = packet[:2] + bytes((first, 0)) + length.to_bytes(2, "big") + packet[6:22] + options
            packet += udp_packet(payload, src=self.sender, dst=self.lb, src_port=1, dst_port=port)[22:]
        return LB_MAC + SENDER_MAC + packet

    @property
    def counters(self) -> PipelineCounters:
        return self.app.pipeline.counters


def header(version: int, tick: int) -> bytes:
    selectors = b"" if version == 1 else b"\0\0\0\0"
    return b"LB" + bytes((version, 1)) + selectors + tick.to_bytes(8, "big")


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize(
    ("version", "payload"),
    [
        (1, b"seg+LC"),
        (1, bytes(8) + b"LC"),
        (2, b"....LC"),
        (2, b"\x10\0\0\1\x4c\x43\0\0" + bytes(12)),
        (3, b"LCLCLCLCLCLCLCLC"),
        (3, b"\x10\0\0\1\x4c\x43\0\0" + bytes(12)),
    ],
)
def test_payload_with_the_magic_of_sync_messages_arrives(
    implementation: str, ip: int, version: int, payload: bytes
) -> None:
    way = Way(implementation, ip)
    arrived = sum(len(way.put(way.frame(header(version, tick) + payload))) for tick in range(200))
    assert arrived == 200
    assert (way.counters.tx_packets, way.counters.dropped, way.counters.balance) == (200, 0, 0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_magic_at_any_offset_of_headers_and_payload_is_no_loss(
    implementation: str, ip: int, version: int
) -> None:
    way = Way(implementation, ip)
    front = len(header(version, 0))
    frames = []
    for magic in MAGICS:
        for at in range(64):
            payload = bytearray(80)
            payload[at : at + len(magic)] = magic
            frames.append(way.frame(header(version, 5) + payload))
        for at in range(front - 8, front - len(magic) + 1):  # inside the tick
            data = bytearray(header(version, 5) + bytes(80))
            data[at : at + len(magic)] = magic
            frames.append(way.frame(bytes(data)))
        for at in range(6, 13 - len(magic)):  # inside the sender's MAC
            data = bytearray(frames[0])
            data[at : at + len(magic)] = magic
            frames.append(bytes(data))
        if ip == 4:
            frames.append(way.frame(header(version, 5) + bytes(80), options=magic.ljust(8, b"\0")))
    arrived = [len(way.put(frame)) for frame in frames]
    assert arrived == [1] * len(frames)
    assert (way.counters.dropped, way.counters.balance) == (0, 0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("ip", [4, 6])
def test_sync_message_is_taken_and_everything_near_it_is_counted(implementation: str, ip: int) -> None:
    way = Way(implementation, ip)
    options = b"\x01" * 8
    taken = [way.frame(SYNC, port=SYNC_PORT)]
    if ip == 4:
        later = SyncHeader(source_id=1, event=1001, rate_hz=100, unix_ns=0).build()
        taken.append(way.frame(later, port=SYNC_PORT, options=options))
    refused = [
        way.frame(SYNC[:-1], port=SYNC_PORT),
        way.frame(SYNC + b"!", port=SYNC_PORT),
        way.frame(b"LC", port=SYNC_PORT),
        way.frame(SYNC, port=SYNC_PORT + 1),  # no instance listens there
        way.frame(SYNC, port=LB_PORT),
        way.frame(b"L", port=SYNC_PORT),
        way.frame(b"", port=SYNC_PORT),
    ]
    for frame in (*taken, *refused):
        assert way.put(frame) == []
    counters = way.counters
    assert counters.syncs == len(taken)
    assert counters.rx_packets == len(taken) + len(refused)
    assert counters.dropped == len(refused)
    assert counters.drops["sync:malformed"] == 3  # type: ignore[index]
    assert counters.balance == 0
    assert way.put(way.frame(header(2, 7), port=SYNC_PORT)), "data may come to that port as to any other"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_header_of_any_version_from_a_stranger_is_dropped(implementation: str, ip: int, version: int) -> None:
    way = Way(implementation, ip)
    data = way.frame(header(version, 1 << 63) + b"data")
    way.sender = ip_address("10.0.0.66" if ip == 4 else "fd00::66")
    stranger = way.frame(header(version, (1 << 64) - 1) + b"data")
    assert (len(way.put(stranger)), len(way.put(data))) == (0, 1)
    counters = way.counters
    assert {str(reason): count for reason, count in counters.drops.items()} == {"src_filter:miss": 1}
    assert (counters.lbs[0].max_tick, counters.balance) == (1 << 63, 0)


@needs_native
@given(
    ip=st.sampled_from([4, 6]),
    kind=st.sampled_from(["lb1", "lb2", "lb3", "sync", "none"]),
    port=st.sampled_from([LB_PORT, SYNC_PORT, SYNC_PORT + 1, 5000]),
    options=st.sampled_from([b"", b"LC\0\0", b"LB\x01\0", b"\x01" * 40]),
    changes=st.lists(st.tuples(st.integers(12, 110), st.sampled_from(MAGICS)), max_size=3),
    cut=st.integers(0, 130),
)
def test_native_and_python_agree_on_frames_with_magic_bytes_anywhere(
    ip: int, kind: str, port: int, options: bytes, changes: list[tuple[int, bytes]], cut: int
) -> None:
    python, native = way_of("python", ip), way_of("native", ip)
    body = {"sync": SYNC, "none": bytes(40)}.get(kind) or header(int(kind[2:]), 5) + bytes(40)
    data = bytearray(python.frame(body, port=port, options=options if ip == 4 else b""))
    for at, magic in changes:
        data[at : at + len(magic)] = magic
    frame = bytes(data[: max(20, len(data) - cut)] if cut < 60 else data)
    assert native.put(frame) == python.put(frame)
    assert native.counters == python.counters
    assert python.counters.balance == 0


_WAYS: dict[tuple[str, int], Way] = {}


def way_of(implementation: str, ip: int) -> Way:
    """One for all examples: their counters must stay equal to the last."""
    key = implementation, ip
    if key not in _WAYS:
        _WAYS[key] = Way(implementation, ip)
    return _WAYS[key]
