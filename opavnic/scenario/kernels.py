"""Hosts of a scenario that are Linux: user-mode Linux with its own opa_vnic, on the virtual time of the scenario."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Collection
from typing import Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.counters import PacketCounters
from hfi_sim.nodes.hfi import HfiPort
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.port import KernelPort
from opavnic.kernel.virtual import VirtualKernel
from opavnic.scenario.base import ScenarioError

_PREFIX: Final = 20
"""Of the addresses that VNICs have in a scenario."""
_SET_UP: Final = """
for at in /sys/class/net/*/ifindex; do
    read -r number <"$at"
    [ "$number" = "$1" ] || continue
    name=${at#/sys/class/net/}
    name=${name%/ifindex}
    ip address add "$2" dev "$name" && ip link set "$name" up || exit
    until read -r state <"/sys/class/net/$name/operstate" && [ "$state" = up ]; do sleep 0.25; done
done
"""


class ScenarioKernel:
    """One host that is Linux."""

    def __init__(
        self, port: HfiPort, name: str, clock: Clock, seed: int, attached: dict[str, PacketCounters]
    ) -> None:
        """Start it; it boots as time passes.

        Args:    attached: as for `KernelPort`.
        Raises:  ScenarioError: no kernel is built, or it cannot be started.
        """
        self._ifindexes: dict[int, int] = {}
        """By the id of the virtual switch."""
        self._up: set[int] = set()
        self._changed = asyncio.Event()
        self._one_program = asyncio.Lock()
        try:
            self._kernel = VirtualKernel(find_kernel(), name, clock, seed=seed, take=self._take)
        except KernelError as error:
            raise ScenarioError(f"host {name}: {error}") from error
        self._port = KernelPort(port, self._kernel.send, attached=attached, on_vnic=self._on_vnic)

    def _take(self, frame: bytes) -> None:
        self._port.take(frame)

    def _on_vnic(self, ifindex: int, vesw_id: int) -> None:
        self._ifindexes = {known: index for known, index in self._ifindexes.items() if index != ifindex}
        if vesw_id:
            self._ifindexes[vesw_id] = ifindex
        self._changed.set()

    async def await_ready(self) -> None:
        """Let time pass until it has booted."""
        await self._kernel.await_ready()

    def is_up(self, vesw_id: int) -> bool:
        """Return whether its VNIC on a virtual switch has been set up and is still there."""
        return self._ifindexes.get(vesw_id) in self._up

    async def set_up(self, ip: str, vesw_id: int) -> None:
        """Give a VNIC its address, and set it up, once the EM has made it."""
        while vesw_id not in self._ifindexes:
            self._changed.clear()
            await self._changed.wait()
        ifindex = self._ifindexes[vesw_id]
        if ifindex not in self._up:
            await self.run("sh", "-c", _SET_UP, "sh", str(ifindex), f"{ip}/{_PREFIX}")
            self._up.add(ifindex)

    async def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of this machine in the kernel; programs run one after another.

        Raises:  ScenarioError: it cannot be started.
        """
        async with self._one_program:
            try:
                done = await self._kernel.run(*command)
            except (KernelError, ValueError) as error:
                raise ScenarioError(str(error)) from error
        texts = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(list(command), done.returncode, *texts)

    async def ping(self, ip: str, count: int) -> int:
        """Ping with the machine's own program, and return how many requests were answered."""
        done = await self.run("ping", "-n", "-c", str(count), "-i", "0.2", ip)
        answered = re.search(r"(\d+) received", done.stdout)
        return int(answered[1]) if answered else 0

    def close(self) -> None:
        """End it. May be called twice."""
        self._port.close()
        self._kernel.close()


def check_kernels(names: Collection[str], hosts: Collection[str]) -> None:
    """Check the hosts that are to be Linux.

    Raises:  ScenarioError: an unknown one.
    """
    if unknown := sorted(set(names) - set(hosts)):
        raise ScenarioError(f"kernels: there is no host {unknown[0]}; hosts: {', '.join(hosts)}")
