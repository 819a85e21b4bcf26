"""The EM under loss, duplication, reordering, kills, restarts and flaps: it ends converged, and verify finds nothing.

Every scenario is seeded and runs on virtual time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hfi_sim.base.clock import Clock
from hfi_sim.base.counters import Drop
from hfi_sim.base.types import MacAddr
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.lrh16b import L4
from unit.vema.em.em_fabric import PKEY, EmFabric
from vema.base.types import VportNum
from vema.em.desired.desired import EmConfig, parse_config
from vema.em.service.service import EthernetService

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

HOSTS = 6
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))]
LATE_S = (0.01, 0.1, 3.0)
"""The most that a packet is late, of which each late packet draws one; in each direction of each port."""


class BadAir:
    """Loses, doubles and delays what a port sends and receives, before it reaches the link."""

    def __init__(self, port: HfiPort, clock: Clock, rng: random.Random, *, loss: float, twice: float) -> None:
        self.loss, self.twice, self.late = loss, twice, 0.3
        self._rng = rng
        self._clock = clock
        self._port = port
        self._send = port.send_built
        port.send_built = self.send  # type: ignore[method-assign]
        port.unregister_l4(L4.FM)
        port.register_l4(L4.FM, self.receive)

    def send(self, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        self._carry(lambda packet: self._send(packet, slid, dlid, pkey), packet)
        return None

    def receive(self, _port: HfiPort, packet: bytes, _token: object) -> None:
        self._carry(lambda packet: self._port.mad._receive(self._port, packet, None), packet)

    def calm(self) -> None:
        """Carry everything from now on."""
        self.loss = self.twice = self.late = 0.0

    def _carry(self, onward: Callable[[bytes], object], packet: bytes) -> None:
        copies = 1 + (self._rng.random() < self.twice)
        for _ in range(copies):
            if self._rng.random() < self.loss:
                continue
            if self._rng.random() < self.late:  # overtaken, now and then by a retry of itself
                self._clock.call_later(self._rng.choice(LATE_S) * self._rng.random(), onward, packet)
            else:
                onward(packet)


def two_vesws() -> EmConfig:
    return parse_config(
        {
            "mac": "learn",
            "polling": {"interval": "5s"},
            "limits": {"in_flight": 16, "per_port": 2, "leave_hold": "2s"},
            "vesws": [
                {"id": 2, "name": "blue", "pkey": PKEY},
                {"id": 3, "name": "red", "pkey": 0x8003, "members": ["h1", "h2", "h3"]},
            ],
        }
    )


async def clean(em: EthernetService, timeout_s: float = 600.0) -> None:
    """Wait until the EM is quiet and verify is clean; a look that changes its mind may come in between."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    differences = ["never converged"]
    while differences and loop.time() < end:
        if await em.wait_converged(end - loop.time()):
            differences = [str(difference) for difference in await em.verify()]
            if differences:  # found by verify before the next look of the EM: give it that look
                await asyncio.sleep(5.0)
    assert differences == []


def disturb(fabric: EmFabric, rng: random.Random) -> None:
    """Let one thing happen to one host: another address, other lists, an agent or a link that comes and goes."""
    host = rng.randint(1, HOSTS)
    what = rng.choice(["mac", "list", "open", "restart", "flap", "mute"])
    vnic = fabric.vnics[f"h{host}:1"]
    adapters = list(vnic.adapters.values())
    if what == "restart":
        fabric.start_agent(fabric.port(host))
    elif what == "flap":
        link = fabric.port(host).link
        assert link is not None
        fabric.fabric.set_link(link, False)
        fabric.clock.call_later(rng.random() * 4.0, fabric.fabric.set_link, link, True)
    elif what == "mute":  # the agent forgets where its traps go
        vnic.agent.class_port_info = type(vnic.agent.class_port_info)()
    elif adapters:
        netdev = fabric.netdev(host, rng.choice(adapters).vport_num)
        mac = MacAddr(bytes((2, host, 0, 0, 0, rng.randint(0, 255))))
        if what == "mac":
            netdev.set_mac(mac)
        elif what == "list":
            netdev.set_uc_list([MacAddr(mac[:5] + bytes((n,))) for n in range(rng.randint(0, 5))])
            netdev.set_mc_list([MacAddr(b"\x33\x33" + mac[2:])])
        else:
            netdev.stop() if netdev.is_up else netdev.open()


@pytest.mark.parametrize("seed", SEEDS)
async def test_loss_duplication_and_reordering_end_converged(seed: int) -> None:
    rng = random.Random(seed)
    fabric = EmFabric(HOSTS, seed=seed)
    BadAir(fabric.em_ports[0], fabric.clock, rng, loss=0.3, twice=0.2)
    em = fabric.em()
    em.start(two_vesws())
    await clean(em)
    for _ in range(10):
        disturb(fabric, rng)
        await asyncio.sleep(rng.random() * 3)
    await asyncio.sleep(10.0)
    await clean(em)
    em.stop()


async def test_hundred_kills_at_random_moments_end_converged(tmp_path: Path) -> None:
    rng = random.Random(4)
    fabric = EmFabric(HOSTS, seed=4)
    air = BadAir(fabric.em_ports[0], fabric.clock, rng, loss=0.1, twice=0.1)
    em = fabric.em(database=tmp_path / "em.db")
    em.start(two_vesws())
    for _ in range(100):
        disturb(fabric, rng)
        await asyncio.sleep(rng.choice((0.0, 0.001, 0.01, 0.1, 1.0, 5.0)) * rng.random())
        kill(em)
        em = fabric.em(database=tmp_path / "em.db")
        em.start()
    air.calm()
    await asyncio.sleep(10.0)
    await clean(em)
    em.stop()
    sets = fabric.sets()
    em = fabric.em(database=tmp_path / "em.db")
    em.start()
    await clean(em)
    assert fabric.sets() == sets
    em.stop()


def kill(em: EthernetService) -> None:
    """End an EM without a word, as kill -9 does: what SQLite has committed stays, nothing else does."""
    em.stop()


async def test_all_traps_lost_is_made_good_by_polling() -> None:
    rng = random.Random(9)
    fabric = EmFabric(HOSTS)
    em = fabric.em()
    em.start(two_vesws())
    await clean(em)
    for vnic in fabric.vnics.values():
        vnic.agent.report = lambda vnic, opcode: None  # type: ignore[method-assign]
    for _ in range(20):
        disturb(fabric, rng)
        await asyncio.sleep(rng.random() * 2)
    await asyncio.sleep(10.0)
    await clean(em)
    em.stop()


@pytest.mark.parametrize("seed", SEEDS)
async def test_two_ems_under_loss_never_write_both_and_the_second_takes_over(seed: int) -> None:
    rng = random.Random(seed)
    fabric = EmFabric(HOSTS, seed=seed, ems=2)
    # Three heartbeats of ten are lost between the EMs, at either port. For two masters, ten of them in a row and
    # all the answers to eight questions would have to be: 3e-8 for each heartbeat.
    at_each_port = 1 - (1 - 0.3) ** 0.5
    for port in fabric.em_ports:
        BadAir(port, fabric.clock, rng, loss=at_each_port, twice=0.1)
    writers: list[tuple[float, int]] = []
    for vnic in fabric.vnics.values():
        note_writers(vnic.port, fabric.clock, writers)
    first, second = fabric.em(1), fabric.em(2)
    config = elected(7)
    first.start(config)
    second.start(elected(3))
    await clean(first, 300.0)  # a Get may stay unanswered in such an air, whoever asks
    died = fabric.clock.time()
    first.stop()
    # Loss only hastens a takeover. What delays it is a last heartbeat that is late at both ports.
    last_heard = died + 2 * max(LATE_S)
    due = last_heard + config.election.dead_after + config.election.heartbeat
    active = second.wait_for(lambda: second.core is not None and second.core.active, due - died)
    assert await active, f"no EM is active {due - died} s after the master died"
    await asyncio.sleep(10.0)
    await clean(second)
    slid_one, slid_two = (port.lid for port in fabric.em_ports)
    last_of_one = max(when for when, slid in writers if slid == slid_one)
    first_of_two = min(when for when, slid in writers if slid == slid_two)
    assert last_of_one < first_of_two
    second.stop()


def elected(priority: int) -> EmConfig:
    data = two_vesws().model_dump()
    return parse_config(data | {"election": {"priority": priority, "heartbeat": 0.5, "dead_after": 5.0}})


def note_writers(port: HfiPort, clock: Clock, writers: list[tuple[float, int]]) -> None:
    """Write down when which LID sent a Set to this port."""

    def listen(port: HfiPort, packet: bytes, token: BufferToken | None) -> Drop | None:
        if packet[8] == 0x08 and packet[24 + 1] == 0x34 and packet[24 + 3] == 0x02:
            writers.append((clock.time(), int.from_bytes(packet[0:3], "little") & 0xFFFFF))
        return port.mad._receive(port, packet, token)

    port.unregister_l4(L4.FM)
    port.register_l4(L4.FM, listen)


async def test_better_em_takes_over_without_rewriting_tables() -> None:
    fabric = EmFabric(HOSTS, ems=2)
    first, second = fabric.em(1), fabric.em(2)
    first.start(elected(3))
    assert await first.wait_for(lambda: first.converged, 60.0)
    sets = fabric.sets()
    second.start(elected(7))
    assert await second.wait_for(lambda: second.converged, 60.0)
    assert not first.core.active  # type: ignore[union-attr]
    assert await second.verify() == []
    assert fabric.sets() - sets == HOSTS  # where traps go, and nothing else
    assert VportNum(1) in fabric.vnics["h1:1"].adapters
    first.stop()
    second.stop()
