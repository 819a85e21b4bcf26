"""A lab on several machines of one process, on virtual time, over a transport in memory."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from hfi_sim.base.types import Lid, PortState
from hfi_sim.netdev.memory import MemoryNetdev
from opavnic.cluster.errors import ClusterInputError, PeerRequestError
from opavnic.cluster.machines.coordinator import Coordinator
from opavnic.cluster.machines.member import Member
from opavnic.cluster.machines.node import Machine
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.protocol.placement import Loads
from opavnic.lab.change.edits import EditError
from opavnic.lab.change.live import LivingLab
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.lab import Lab
from opavnic.scenario.virtual import LOOP_OPTIONS
from opavnic.world.fabric_views import FAULTS, LANES, ROUTES, TOPOLOGY
from unit.opavnic.cluster.memory_network import MemoryNetwork
from vema.em.desired.desired import parse_config

pytestmark = pytest.mark.looptime(**LOOP_OPTIONS)
FILE = """
name: spread
fabric: {topology: {kind: clos, leaves: 3, spines: 2, hosts_per_leaf: 2, uplinks: 2}}
hosts: 6
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: all}]
cluster: {nodes: 3}
"""


@dataclass
class Cluster:
    net: MemoryNetwork
    machines: dict[str, Machine] = field(default_factory=dict)
    labs: dict[str, Lab] = field(default_factory=dict)

    def host(self, name: str) -> Lab:
        return next(lab for lab in self.labs.values() if name in lab.hosts)

    def unaccounted(self) -> dict[str, int]:
        return {key: value for lab in self.labs.values() for key, value in lab.world.fabric.balance().items()}


def coordinator_on(
    net: MemoryNetwork,
    text: str = FILE,
    progress: Callable[[str], None] = print,
    loads: Loads | None = None,
) -> Coordinator:
    """Make the machine alpha, which coordinates a lab."""
    return Coordinator(
        parse_lab(text, "lab.yaml"),
        text,
        "lab.yaml",
        net.transport("alpha", is_coordinator=True),
        progress=progress,
        loads=loads,
        netdev="memory",
    )


@asynccontextmanager
async def cluster(
    text: str = FILE,
    members: tuple[str, ...] = ("beta", "gamma"),
    *,
    clocks: dict[str, Callable[[], float]] | None = None,
    progress: Callable[[str], None] = print,
) -> AsyncIterator[Cluster]:
    loop = asyncio.get_running_loop()
    made = Cluster(MemoryNetwork(loop))
    async with AsyncExitStack() as ends:
        made.machines["alpha"] = coordinator = coordinator_on(made.net, text, progress)

        async def run_member(name: str) -> None:
            member = made.machines[name]
            assert isinstance(member, Member)
            lab = await member.join()
            assert lab is not None
            made.labs[name] = await ends.enter_async_context(lab)

        for name in members:
            wall_clock = (clocks or {}).get(name, time.time)
            made.machines[name] = Member(made.net.transport(name), progress=print, wall_clock=wall_clock)
        tasks = [loop.create_task(run_member(name)) for name in members]
        lab = await coordinator.gather()
        made.labs["alpha"] = await ends.enter_async_context(lab)
        await asyncio.gather(*tasks)
        yield made
        await coordinator.close()


@pytest.mark.parametrize("link", ["", ", link: {credits: on}"])
async def test_every_vnic_of_every_machine_comes_up(link: str) -> None:
    async with cluster(FILE.replace("uplinks: 2}", f"uplinks: 2}}{link}")) as made:
        states = {vnic.vesw: vnic.state for lab in made.labs.values() for _, vnic in lab.status().vnics()}
        assert states == {"blue": "up"}
        assert sum(len(lab.hosts) for lab in made.labs.values()) == 6
        assert made.unaccounted() == {}


async def states(made: Cluster) -> dict[str, str]:
    """Return the state of the VNIC of each host that is there, as the coordinator hears it."""
    lab = made.labs["alpha"]
    status = await lab.folded(lab.status())
    return {host.name: host.vnics[0].state for host in status.hosts}


async def until(condition: Callable[[], Awaitable[bool]], limit_s: float = 30.0) -> None:
    """Wait, on virtual time, until something holds."""
    async with asyncio.timeout(limit_s):
        while not await condition():  # noqa: ASYNC110 - on virtual time
            await asyncio.sleep(0.01)


def in_service(made: Cluster) -> set[str]:
    ports = made.labs["alpha"].world.subnet_manager.ports_in_service()
    return {port.hfi.name for port in ports}


async def test_machine_cut_off_goes_out_of_service_and_comes_back_with_its_lids() -> None:
    async with cluster() as made:
        before = {port.name: port.lid for port in made.labs["alpha"].world.fabric.hfi_ports()}
        for peer in ("alpha", "gamma"):
            made.net.part("beta", peer)
        assert in_service(made) == {"em", "h1", "h2", "h5", "h6"}
        beta = made.labs["beta"].world
        cut = [link for link in beta.fabric.links if not link.up]
        assert cut, "the machine that is cut off sees its own cables as cut"
        assert {port.state for link in cut for port in link.ends if port.name in beta.fabric.hfis} <= {
            PortState.DOWN
        }
        for peer in ("alpha", "gamma"):
            made.net.heal("beta", peer)

        async def is_back() -> bool:
            return len(in_service(made)) == 7 and set((await states(made)).values()) == {"up"}

        await until(is_back)
        after = {port.name: port.lid for port in made.labs["alpha"].world.fabric.hfi_ports()}
        assert after == before
        assert {port.lid for port in beta.fabric.hfi_ports() if not port.hfi.is_remote} <= set(
            before.values()
        )
        await asyncio.sleep(1.0)
        assert made.unaccounted() == {}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("link", ["", ", link: {credits: on}"], ids=["plain", "credits"])
async def test_packets_between_machines_are_received_once_or_counted_as_lost(seed: int, link: str) -> None:
    chance = random.Random(seed)
    async with cluster(FILE.replace("uplinks: 2}", f"uplinks: 2}}{link}")) as made:
        netdevs = [next(iter(made.host(f"h{number}").vnics())).netdev for number in range(1, 7)]
        for _ in range(6):
            for _ in range(60):
                netdev = chance.choice(netdevs)
                assert isinstance(netdev, MemoryNetdev)
                netdev.transmit(b"\xff" * 6 + netdev.host_address + bytes(chance.randrange(46, 1400)))
                await asyncio.sleep(chance.choice([0, 0, 1e-5, 1e-4]))
            one, other = chance.sample(["alpha", "beta", "gamma"], 2)
            made.net.part(one, other)
            await asyncio.sleep(chance.choice([0, 1e-4, 0.3]))
            made.net.heal(one, other)

        async def is_back() -> bool:
            return len(in_service(made)) == 7 and set((await states(made)).values()) == {"up"}

        await until(is_back)
        await asyncio.sleep(1.0)
        lab = made.labs["alpha"]
        state = await lab.folded(lab.status())
        assert state.balance == {}
        assert state.cluster is not None
        links = [link for share in state.cluster.machines.values() if share for link in share.links]
        assert sum(link.lost for link in links) > 0
        assert all(link.is_open and link.under_way == 0 for link in links)
        for lab in made.labs.values():  # nothing came twice: a broadcast reaches each host once at most
            assert lab.world.fabric.balance() == {}


async def test_fault_of_the_coordinator_acts_on_the_machine_that_carries_the_place() -> None:
    async with cluster() as made:
        assert await made.machines["alpha"].remote_machines.change_faults({"add": "link-down on h3"}) == 1

        async def is_down() -> bool:
            return "h3" not in in_service(made)

        await until(is_down)
        assert made.host("h3").world.hosts["h3"].port.state is PortState.DOWN


async def test_member_changes_faults_of_its_own_nodes_on_all_machines_and_no_others() -> None:
    async with cluster() as made:
        beta = made.machines["beta"].remote_machines
        with pytest.raises(
            PeerRequestError, match="loss on h5: beta may change faults of its own nodes and their links"
        ):
            await beta.change_faults({"add": "loss on h5 100%"})
        assert made.labs["gamma"].world.faults.show() == []
        await made.machines["alpha"].remote_machines.change_faults({"add": "loss on h5 1%"})
        assert await beta.change_faults({"add": "link-down on h3"}) == 2
        for lab in made.labs.values():
            assert lab.world.faults.specs().keys() == {1, 2}
        with pytest.raises(PeerRequestError, match="loss on h5: beta may change faults"):
            await beta.change_faults({"remove": None})
        await beta.change_faults({"remove": 2})
        for machine in made.machines.values():
            [fault] = (await machine.remote_machines.look(FAULTS, {})).faults
            assert (fault.number, fault.on) == (1, "h5")


async def test_effects_of_a_fault_are_told_whichever_machine_is_asked() -> None:
    async with cluster() as made:
        await made.machines["alpha"].remote_machines.change_faults({"add": "loss on h5 100%"})
        world = made.host("h5").world
        world.hosts["h5"].port.send(bytes(64))

        async def is_told() -> bool:
            told = [
                (await machine.remote_machines.look(FAULTS, {})).faults for machine in made.machines.values()
            ]
            return [rows[0].hits > 0 for rows in told] == [True] * 3

        await until(is_told)


async def test_machine_that_was_away_gets_the_faults_of_now() -> None:
    async with cluster() as made:
        coordinator = made.machines["alpha"].remote_machines
        await coordinator.change_faults({"add": "loss on h1 1%"})
        for peer in ("alpha", "gamma"):
            made.net.part("beta", peer)
        await coordinator.change_faults({"remove": 1})
        await coordinator.change_faults({"add": "link-down on h4"})
        assert made.labs["beta"].world.faults.specs().keys() == {1}
        for peer in ("alpha", "gamma"):
            made.net.heal("beta", peer)

        async def knows() -> bool:
            return made.labs["beta"].world.faults.specs() == made.labs["alpha"].world.faults.specs()

        await until(knows)
        assert made.host("h4").world.hosts["h4"].port.state is PortState.DOWN


async def test_fault_that_is_over_on_a_machine_is_not_set_there_again() -> None:
    """Neither where it was away, nor where another process has taken its place: what is used up stays so."""
    async with cluster() as made:
        coordinator = made.machines["alpha"].remote_machines
        for text in ("loss on h3 100% count=2", "loss on h4 100% for=1s", "loss on h3 1%"):
            await coordinator.change_faults({"add": text})

        def over(name: str) -> dict[int, bool]:
            return {number: fault.is_over for number, fault in made.labs[name].world.faults.known.items()}

        netdev = next(iter(made.host("h3").vnics())).netdev
        assert isinstance(netdev, MemoryNetdev)
        for _ in range(3):
            netdev.transmit(b"\xff" * 6 + netdev.host_address + bytes(60))
        await asyncio.sleep(2.0)
        assert over("beta") == {1: True, 2: True, 3: False}
        hits = made.labs["beta"].world.faults.known[1].hits
        for peer in ("alpha", "gamma"):
            made.net.part("beta", peer)
        await coordinator.change_faults({"add": "loss on h5 1%"})
        for peer in ("alpha", "gamma"):
            made.net.heal("beta", peer)

        async def knows() -> bool:
            return over("beta") == {1: True, 2: True, 3: False, 4: False}

        await until(knows)
        assert made.labs["beta"].world.faults.known[1].hits == hits == 2

        made.net.up[NodeName("beta")].kill()
        await made.labs.pop("beta").stop()
        made.machines["beta"] = again = Member(made.net.transport("beta"), progress=print)
        lab = await again.join()
        assert lab is not None
        made.labs["beta"] = lab
        async with lab:

            async def knows_the_others() -> bool:
                return over("beta") == {3: False, 4: False}

            await until(knows_the_others)
            await asyncio.sleep(2.0)
            assert over("beta") == {3: False, 4: False}
            assert over("alpha").keys() == {1, 2, 3, 4}


async def test_lanes_and_routes_are_those_of_the_machine_that_has_them() -> None:
    async with cluster() as made:
        for machine in made.machines.values():
            found = await machine.remote_machines.look(LANES, {"on": "h5--leaf2"})
            carried = {way.name: sum(lane.packets for lane in way.vls) for way in found.directions}
            assert carried.keys() == {"h5:1->leaf2:1", "leaf2:1->h5:1"}
            assert min(carried.values()) > 0, "the EM has configured h5 by MADs, and was answered"
            ways = await machine.remote_machines.look(ROUTES, {"from": "h1", "to": "h5"})
            assert ways.paths
            assert (await machine.remote_machines.look(TOPOLOGY, {})).lids["h5:1"] == made.host(
                "h5"
            ).world.hosts["h5"].port.lid


WRONG = [
    {},
    {"host": "h5", "command": [], "number": "x", "query": 3, "what": None, "faults": 7, "add": []},
    {"host": "h5", "command": ["\0"], "number": [], "query": {"on": 1, "count": "-"}, "ahead_s": 1e999},
    {
        "number": 10**400,
        "query": {"on": "*"},
        "ahead_s": "soon",
        "remove": {},
        "nodes": 3,
        "terminal": {"term": "\0"},
    },
    {
        "h1": 1,
        "h3": {"capabilities": {"1": "x"}},
        "h5": {"description": None, "capabilities": {}, "program": []},
        "leaf1": {"program": 3},
        "text": 1,
        "digest": [],
        "machines": 1,
    },
]
"""Bodies of questions that no machine would send."""


async def test_whatever_a_member_asks_it_gets_an_answer() -> None:
    async with cluster(FILE.replace("nodes: 3", "nodes: 3, trust_members: true")) as made:
        request = made.machines["beta"].transport.request
        for name in ("alpha", "gamma"):
            for verb in made.machines[name].verbs:
                for body in WRONG:
                    with contextlib.suppress(PeerRequestError):
                        await request(NodeName(name), verb, body)
        assert made.unaccounted() == {}


async def test_coordinator_sees_what_a_fabric_manager_sets_up_on_other_machines() -> None:
    async with cluster(FILE + "subnet_manager: external\n") as made:
        carried = made.host("h5").world.fabric
        port = carried.hfis["h5"].ports[1]
        port.set_lid(Lid(77), 0)  # as by an SMP of whoever manages the fabric
        carried.switches["leaf2"].program({77: 1}, {0xF00001: frozenset({1, 2})})
        seen = made.labs["alpha"].world.fabric

        async def follows() -> bool:
            leaf = seen.switches["leaf2"]
            return seen.hfis["h5"].ports[1].lid == 77 and 0xF00001 in leaf.mft and leaf.lft.get(77) == 1

        await until(follows)
        assert (await made.machines["beta"].remote_machines.look(TOPOLOGY, {})).lids["h5:1"] == 77


async def test_clock_that_is_wrong_is_told_and_hurts_nobody() -> None:
    said: list[str] = []
    async with cluster(clocks={"beta": lambda: time.time() + 3600}, progress=said.append) as made:
        await asyncio.sleep(1.0)
        cluster_status = made.labs["alpha"].status().cluster
        assert cluster_status is not None
        assert cluster_status.clocks == {
            "beta": pytest.approx(3600, abs=5),
            "gamma": pytest.approx(0, abs=5),
        }
        assert [
            line
            for line in said
            if line.startswith("the clock of beta is 3") and "ahead of this one's" in line
        ]
        assert set((await states(made)).values()) == {"up"}


async def test_members_obey_the_coordinator_alone() -> None:
    async with cluster() as made:
        asked = made.machines["beta"].transport.request(NodeName("gamma"), "program", {"nodes": {}})
        with pytest.raises(PeerRequestError, match="beta is not the coordinator of this fabric"):
            await asked
        told = made.machines["beta"].transport.request(NodeName("gamma"), "vesws", {"vesws": []})
        with pytest.raises(PeerRequestError, match="beta is not the coordinator of this fabric"):
            await told


@pytest.mark.parametrize("away", [False, True], ids=["there", "away meanwhile"])
async def test_vnics_of_a_switch_that_the_manager_adds_bear_its_name_on_every_machine(away: bool) -> None:
    async with cluster() as made:
        manager = made.labs["alpha"].manager
        assert manager is not None
        others = ("alpha", "gamma") if away else ()
        for peer in others:
            made.net.part("beta", peer)
        red = {"id": 3, "name": "red", "pkey": 0x8001, "subnet": "10.9.3.0/24", "members": "all"}
        manager.em.apply(
            parse_config({"vesws": [{"id": 2, "name": "blue", "pkey": 0x8001, "members": "all"}, red]})
        )
        for peer in others:
            made.net.heal("beta", peer)
        wanted = {(f"h{number}", "red", "red", f"10.9.3.{number}/24") for number in range(1, 7)}

        async def are_named() -> bool:
            rows = [row for lab in made.labs.values() for row in lab.status().vnics()]
            names = {(host.name, vnic.vesw, vnic.interface, vnic.ip) for host, vnic in rows}
            return wanted <= names

        await until(are_named)


async def test_member_reports_on_its_own_nodes_alone() -> None:
    async with cluster() as made:
        lie = {"h1": {"capabilities": {}, "description": "mine"}, "h1:1--leaf0:1": False}
        await made.machines["beta"].transport.request(NodeName("alpha"), "report", lie)
        fabric = made.labs["alpha"].world.fabric
        assert fabric.hfis["h1"].description == "h1 hfi1_0"
        assert all(port.link is not None and port.link.up for port in fabric.hfis["h1"].ports.values())


@pytest.mark.parametrize("reply", [{}, {"lab": 5}, None])
async def test_machine_whose_status_is_no_share_of_the_lab_is_left_out(reply: dict[str, Any] | None) -> None:
    async with cluster() as made:
        whole = made.labs["gamma"].status().as_json()
        whole.pop("cluster")

        async def say(_sender: NodeName, _body: dict[str, Any]) -> dict[str, Any]:
            return whole if reply is None else reply

        made.machines["beta"].verbs["status"] = say
        lab = made.labs["alpha"]
        state = await lab.folded(lab.status())
        assert state.cluster is not None
        assert state.cluster.machines["beta"] is None
        assert state.cluster.machines["gamma"] is not None


async def test_machine_with_another_lab_file_is_refused() -> None:
    loop = asyncio.get_running_loop()
    net = MemoryNetwork(loop)
    text = FILE.replace("nodes: 3", "nodes: 2")
    coordinator = coordinator_on(net, text)
    member = Member(net.transport("beta"), progress=print, expected=text + "# changed")
    joining = loop.create_task(member.join())
    lab = await coordinator.gather()
    with pytest.raises(LabError, match="beta has another lab file than the coordinator"):
        async with lab:
            pass
    await coordinator.close()
    assert await joining is None


async def test_machine_that_comes_too_late_is_told_so() -> None:
    async with cluster() as made:
        late = Member(made.net.transport("delta"), progress=print)
        assert await late.join() is None
        assert late.reason == "lab spread started without delta: it joined too late"


async def test_lab_without_a_number_of_machines_is_refused() -> None:
    text = FILE.replace("cluster: {nodes: 3}", "")
    with pytest.raises(ClusterInputError, match="how many machines"):
        Coordinator(
            parse_lab(text, "lab.yaml"),
            text,
            "lab.yaml",
            MemoryNetwork(asyncio.get_running_loop()).transport("alpha"),
            progress=print,
        )


async def test_hosts_and_links_of_a_lab_on_several_machines_stay_as_they_are() -> None:
    """Only the coordinator could change them, and no machine makes or ends the hosts of another one."""
    async with cluster() as made:
        for name in ("alpha", "beta"):
            there = {machine: list(lab.hosts) for machine, lab in made.labs.items()}
            lab = LivingLab(made.labs[name])
            for change in (lab.add_host("h7"), lab.remove_host("h3"), lab.remove_link("leaf0:3", "spine0:1")):
                with pytest.raises(EditError, match="hosts and links of a lab on several machines stay as t"):
                    await change
            assert {machine: list(lab.hosts) for machine, lab in made.labs.items()} == there
