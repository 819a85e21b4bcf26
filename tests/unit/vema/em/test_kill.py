"""An EM that is a process of its own dies by SIGKILL, again and again, and the next one finds its way."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.base.types import MacAddr
from hfi_sim.wire.mad.header import MadClass, Method
from loop_thread import LoopThread
from opavnic.management.em_port import SmTopology
from opavnic.management.mad_socket import MadSocketServer
from processes import child
from unit.vema.em.em_fabric import EmFabric
from vema.base.types import EMA_OUI

HOSTS = 5
PROGRAM = Path(__file__).with_name("em_process.py")


class Fabric(LoopThread):
    """A fabric with agents on an event loop of its own; the EM is a program on its raw MAD socket."""

    def __init__(self, socket_path: Path) -> None:
        super().__init__()
        self.socket_path = socket_path
        self.requests = 0
        """Packets that the EM's port has sent."""
        self.on_request: Callable[[int], None] = lambda count: None

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        self.em_fabric = EmFabric(HOSTS, clock=self.loop)
        port = self.em_fabric.em_ports[0]
        topology = SmTopology(self.em_fabric.sm, port)
        facts = [{**asdict(fact), "pkeys": sorted(fact.pkeys)} for fact in topology.ports()]
        self.ports = json.dumps({"lid": int(port.lid), "facts": facts})
        server = MadSocketServer(port.mad, agents=list)
        port.mad.register_agent(MadClass.EMA, EMA_OUI, [Method.TRAP], server.trap)
        send = port.send_built

        def count(packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
            self.requests += 1
            self.on_request(self.requests)
            return send(packet, slid, dlid, pkey)

        port.send_built = count  # type: ignore[method-assign]
        await server.start(self.socket_path)
        yield
        await server.close()
        for vnic in self.em_fabric.vnics.values():
            vnic.close()

    def disturb(self, rng: random.Random) -> None:
        """Give a host another address, and another one other lists."""
        for vnic in rng.sample(sorted(self.em_fabric.vnics.values(), key=lambda vnic: vnic.port.name), 2):
            for adapter in vnic.adapters.values():
                netdev = self.em_fabric.netdev(int(vnic.port.hfi.name[1:]), adapter.vport_num)
                if not netdev.is_up:
                    netdev.open()
                mac = MacAddr(bytes((2, 0, rng.randrange(256), rng.randrange(256), 0, 0)))
                netdev.set_mac(mac)
                netdev.set_uc_list([MacAddr(mac[:5] + bytes((n,))) for n in range(1, rng.randrange(2, 90))])


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[Fabric]:
    with Fabric(tmp_path / "mad.sock") as fabric:
        yield fabric


@contextmanager
def manager(fabric: Fabric, database: Path) -> Iterator[subprocess.Popen[str]]:
    """An EM on the fabric, with a database on disk."""
    command = [sys.executable, str(PROGRAM), str(fabric.socket_path), str(database), fabric.ports]
    with child(command, stdin=-1, stdout=-1, stderr=-1) as process:
        yield process


def runs_until_clean(fabric: Fabric, database: Path) -> None:
    """Let an EM run until it has found everything as it is to be, and end it in order."""
    with manager(fabric, database) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "clean\n"
        process.communicate("", timeout=60)
        assert process.returncode == 0


@pytest.mark.parametrize(("seed", "kills"), [(0, 2), pytest.param(1, 12, marks=pytest.mark.slow)])
def test_killed_at_random_moments_the_next_manager_ends_clean_and_a_restart_sends_no_set(
    fabric: Fabric, tmp_path: Path, seed: int, kills: int
) -> None:
    rng = random.Random(seed)
    database = tmp_path / "em.db"
    killed_at_work = 0
    for _ in range(kills):
        fabric.call(lambda: fabric.disturb(rng))
        with manager(fabric, database) as process:
            last = fabric.requests + rng.randint(1, 120)

            def kill(count: int, pid: int = process.pid, last: int = last) -> None:
                if count == last:
                    os.kill(pid, signal.SIGKILL)

            fabric.call(lambda kill=kill: setattr(fabric, "on_request", kill))  # type: ignore[misc]
            assert process.stdout is not None
            killed_at_work += process.stdout.readline() == ""  # else: done before its last request
            process.kill()
            fabric.call(
                lambda: setattr(fabric, "on_request", lambda count: None)
            )  # before its pid is free again
            process.wait(60)
            assert process.returncode == -signal.SIGKILL
    assert killed_at_work >= kills // 2
    runs_until_clean(fabric, database)
    sets = fabric.em_fabric.sets()
    tables = [len(fabric.em_fabric.dlids(host)) for host in range(1, HOSTS + 1)]
    assert min(tables) >= HOSTS - 1
    runs_until_clean(fabric, database)
    assert fabric.em_fabric.sets() == sets
