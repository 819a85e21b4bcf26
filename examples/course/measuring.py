"""Lecture 6: what a frame's way takes, measured on virtual time: the machine on which this runs does not matter."""

import asyncio

from scapy.layers.l2 import Ether

from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.topology import single_switch
from opavnic.scenario import Scenario, run_virtual


async def one_way_ns(rate: int, size: int, train: int = 1) -> float:
    """Send frames of `size` bytes at once from h1 to h2; return after how many ns the last of the train is there."""
    async with Scenario(single_switch(2), link=LinkConfig(rate_bps=rate * 1e9, latency_ns=300)) as lab:
        await lab.em.vesw("blue", members=lab.hosts, mtu=9000)
        h1, h2 = lab.hosts
        clock = asyncio.get_running_loop()
        begun = clock.time()
        for number in range(train):
            frame = h1.send(Ether(dst=h2.mac, type=0x88B5) / bytes([number]) / bytes(size - 15))
        await h2.expect(frame)
        return round((clock.time() - begun) * 1e9)


if __name__ == "__main__":
    for rate in (100, 10):
        for size in (64, 1514, 9014):
            print(f"{rate:3}G {size:5} bytes: {run_virtual(one_way_ns(rate, size)):6.0f} ns")
    print(f"10 frames of 1514 bytes at 10G: {run_virtual(one_way_ns(10, 1514, train=10)):6.0f} ns")
