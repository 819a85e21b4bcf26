"""The load balancer live in a lab, in memory and on TAPs; in the latter also as a program, see `programs`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from itertools import cycle

from ejfat.control.epochs.programming import Rewrite
from ejfat.live.node import LbNode
from ejfat.pipeline.native import Backend, make_pipeline
from hfi_sim.base.precise_loop import timer_resolution_s
from hfi_sim.netdev.memory import MemoryNetdev
from opavnic.lab.file.model import LabModel
from opavnic.lab.run.lab import Lab
from opavnic.management.em_port import SmTopology, make_em
from opavnic_bench.base.bed import PKEY, make_world
from opavnic_bench.base.turns import BenchError
from opavnic_bench.ejfat.figures import MEMORY_LAB, TAP_LAB, LbCase, LbSample
from opavnic_bench.ejfat.frames import LB, WORKER, make_frames, make_tables
from opavnic_bench.ejfat.programs import measure_programs, sample_of, sender_on
from vema.em.desired.desired import parse_config

_BATCH = 64
_MTU = 9000
_WAIT_S = 60.0


@contextlib.asynccontextmanager
async def _vesw(*hosts: str) -> AsyncIterator[list[MemoryNetdev]]:
    """Yield the netdevs of these hosts once an Ethernet Manager has put them on a virtual switch."""
    loop = asyncio.get_running_loop()
    netdevs = {host: MemoryNetdev(host) for host in hosts}
    async with make_world(
        hosts, lambda host: lambda _: netdevs[host], clock=loop, timer_resolution_s=timer_resolution_s(loop)
    ) as world:
        topology = SmTopology(world.subnet_manager, world.em_port)
        em = make_em(topology, world.em_port, clock=loop, wall_clock=time.time)
        world.cleanups.add("Ethernet Manager", em.stop)
        vesw = {"id": 8, "name": "daq", "pkey": PKEY, "mtu": _MTU, "members": list(hosts)}
        em.start(parse_config({"vesws": [vesw]}))
        if not await em.wait_converged(_WAIT_S):
            raise BenchError(f"no virtual switch of {', '.join(hosts)} within {_WAIT_S:g} s")
        for netdev in netdevs.values():
            netdev.change_mtu(_MTU)
            netdev.open()
        yield [netdevs[host] for host in hosts]


async def memory_lab(by: Backend, payload: int, seconds: float) -> dict[LbCase, LbSample]:
    """Measure source, load balancer and worker on a virtual switch: three VNICs and a fabric, ICRCs included."""
    async with _vesw("lb", "source", "worker") as (lb, source, sink):
        got = sent = 0

        def count(_frame: bytes) -> None:
            nonlocal got
            got += 1

        sink.on_receive = count
        mac = int.from_bytes(lb.address, "big")
        worker = Rewrite(0, int.from_bytes(sink.address, "big"), WORKER, 10000)
        node = LbNode(
            make_pipeline(by, make_tables(worker=worker, mac=mac)),
            lb.transmit,
            mac=lambda: bytes(lb.address),
            addresses=[LB],
            on_sync=lambda *_: None,
        )
        lb.on_receive = node.receive
        frames = cycle(
            frame[:6] + bytes(source.address) + frame[12:] for frame in make_frames(2, payload, mac)
        )
        started = time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            for _ in range(_BATCH):
                source.transmit(next(frames))
            sent += _BATCH
            await asyncio.sleep(0)
        return {LbCase(MEMORY_LAB, by, 2, payload): LbSample(got / elapsed, sent - got)}


async def tap_labs(
    by: Backend, payloads: tuple[int, ...], seconds: float, *, private: bool
) -> dict[LbCase, LbSample]:
    """Measure the load balancer as an app of a lab on TAPs and as a program, both only with `by`."""
    hosts = ["lb", "source", "worker", "alone"]
    model = LabModel.model_validate(
        {
            "name": f"ejfat-bench-{os.getpid()}",
            "datapath": by,
            "hosts": {host: {} for host in hosts},
            "vesws": [{"id": 8, "name": "daq", "mtu": _MTU, "subnet": "10.8.0.0/24", "members": hosts}],
            "apps": [
                {
                    "kind": "ejfat-lb",
                    "host": "lb",
                    "options": {"pipeline": by, "senders": ["source"], "period": 0.1},
                }
            ],
        }
    )
    samples = {}
    async with Lab(model, private=private) as lab:
        (app,) = lab.status().apps
        inside = {
            "target": "10.8.0.1",
            "worker": "10.8.0.3",
            "uri": app.said["uri"],
            "control": app.said["control"],
        }
        for payload in payloads:
            async with sender_on(lab, "source", inside | {"payload": payload}) as sender:
                samples[LbCase(TAP_LAB, by, 2, payload)] = await sample_of(
                    lab, "worker", "daq", sender, seconds
                )
        samples |= await measure_programs(lab, "alone", by, payloads, seconds)
    return samples
