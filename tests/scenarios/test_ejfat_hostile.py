"""A load balancer in a lab that its own neighbors attack: each frame is accounted for, and events go on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from ipaddress import ip_address

from ejfat.control.members import Worker
from ejfat.live.lab_app import LabLoadBalancer
from ejfat.pipeline.packet import parse_packet
from ejfat.wire.headers import LB_PORT, SyncHeader
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.lab import Lab
from opavnic_bench.ejfat.frames import udp_packet

FILE = """name: hostile
hosts: {lb: {}, s: {}, w: {}, x: {}}
vesws: [{id: 7, name: daq, subnet: 10.7.0.0/24, members: [lb, s, w, x]}]
apps: [{kind: ejfat-lb, host: lb, options: {senders: [s], reserve: run, period: 200ms}}]
"""
FRAMES = 6000
LB, S, W, X = (ip_address(f"10.7.0.{number}") for number in (1, 2, 3, 4))


def data(tick: int, version: int = 2) -> bytes:
    selectors = b"" if version == 1 else b"\0\0\0\0"
    return b"LB" + bytes((version, 1)) + selectors + tick.to_bytes(8, "big") + b"data"


def hostile(draw: random.Random, lb_mac: bytes) -> Iterator[bytes]:
    """Yield frames to the load balancer of every kind that it looks at, most of them damaged."""
    while True:
        sync = SyncHeader(source_id=draw.getrandbits(32), event=draw.getrandbits(64), rate_hz=1, unix_ns=0)
        payload = draw.choice(
            [data(draw.getrandbits(64), draw.randrange(5)), sync.build(), draw.randbytes(40)]
        )
        source = draw.choice([S, X, LB, W])
        port = draw.choice([LB_PORT, 19531, 19532, 16384, 5000])
        packet = udp_packet(payload, src=source, dst=LB, src_port=1, dst_port=port)
        arp = (
            b"\x08\x06\0\1\x08\0\6\4" + bytes((0, draw.choice([1, 2]))) + lb_mac + draw.choice([LB, X]).packed
        )
        body = draw.choice([packet, packet, packet, arp + bytes(6) + LB.packed + bytes(18)])
        frame = bytearray(lb_mac + draw.choice([b"\x02\0\0\0\0\x66", lb_mac]) + body)
        if not draw.randrange(5):
            frame[23:24] = b"\x01"  # ICMP
            frame[34:36] = bytes((draw.choice([0, 3, 8]), draw.randrange(16)))
        if not draw.randrange(5):
            frame[12:12] = b"\x81\x00" + draw.randbytes(2)
        for _ in range(draw.choice([0, 1, 3])):
            frame[draw.randrange(12, len(frame))] = draw.getrandbits(8)
        yield bytes(frame[: draw.randrange(14, len(frame) + 1)] if not draw.randrange(5) else frame)


async def test_hostile_frames_into_a_lab_are_accounted_for_and_events_go_on() -> None:
    draw = random.Random(18)
    async with Lab(parse_lab(FILE, "hostile.yaml"), netdev="memory") as lab:
        running = lab.parts.apps["lb"]
        assert isinstance(running, LabLoadBalancer)
        app = running.app
        netdevs = {name: lab.interface(name, "daq").netdev for name in ("s", "w", "x")}
        own = lab.interface("lb", "daq").app_netdev
        lb_mac = bytes(own.address)
        came = 0
        learned: list[bytes] = []

        def count(take: Callable[[bytes], None], frame: bytes) -> None:
            nonlocal came
            came += 1
            before = app.pipeline.counters.rx_packets
            take(frame)
            if app.pipeline.counters.rx_packets == before:
                learned.append(frame)

        take = own.on_receive
        own.on_receive = lambda frame: count(take, frame)
        (reservation,) = app.plane.reservations.values()
        worker = Worker("w", W, 5000, mac=int.from_bytes(bytes(netdevs["w"].address), "big"))
        app.plane.register(reservation, worker, app._now())
        app.advance()
        frames = hostile(draw, lb_mac)
        for number in range(FRAMES):
            netdev = netdevs[draw.choice(["s", "x"])]
            netdev.transmit(next(frames))
            if number % 500 == 0:
                app.advance()
            if number % 50 == 0:
                await asyncio.sleep(0)
        good = [
            lb_mac + b"\x02\0\0\0\0\2" + udp_packet(data(tick), src=S, dst=LB, src_port=1, dst_port=LB_PORT)
            for tick in range(200)
        ]
        forwarded = app.pipeline.counters.members[0].tx_packets
        for frame in good:
            netdevs["s"].transmit(frame)
        async with asyncio.timeout(30):
            while came < FRAMES + len(good):  # noqa: ASYNC110 - nothing announces the last one
                await asyncio.sleep(0.01)
        counters = app.pipeline.counters
        assert counters.balance == 0
        assert counters.members[0].tx_packets - forwarded == len(good)
        assert counters.rx_packets + len(learned) == came >= FRAMES + len(good)  # some are answers of hosts
        assert {parse_packet(frame).ether_type for frame in learned} == {0x0806}, (
            "answers to its own questions"
        )
        stages = {reason.stage for reason in counters.drops}
        assert {"parser", "src_filter", "sync", "ip_dst_filter", "responder"} <= stages
        assert counters.replies
        assert lab.world.fabric.balance() == {}
        assert reservation.balancer.slots() == {1: 512}
