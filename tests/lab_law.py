"""The law of labs that change: whatever has happened to one, it is what a fresh start of its saved file is.

`ChangingLab` does to a lab what people and faults do; `facts_of` says all that the law compares.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from hfi_sim.fabric.topology import Topology
from hfi_sim.netdev.link_client import LinkClient
from hfi_sim.netdev.qdiscs import QdiscClient
from hfi_sim.netdev.routes import RouteClient
from opavnic.lab.change import edits, live_steps
from opavnic.lab.change.edits import EditError
from opavnic.lab.change.live import LivingLab
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.save import save
from vema.base.sections import AS_WRITTEN

LAB: Final = """
name: %s
hosts:
  h1: {routes: [10.50.0.0/16 via 10.9.2.2, "fd05::/64 via fd03::2"], sysctls: {net.ipv4.conf.blue.log_martians: 1}}
  h2:
    addresses: {lo: 10.255.0.2/32, t12: 10.0.12.2/24}
    routes: [10.60.0.0/16 dev t12]
    qdiscs: {blue: {kind: tbf, rate: 1G}, red: {kind: bfifo, limit: 64K}}
  h3: {hfis: 2, qdiscs: {blue-2: {kind: pfifo, limit: 77}}}
  h4: {number: 9, addresses: {blue: [10.9.2.77/24, 10.9.2.78/24]}}
vesws:
  - {id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2, h3, h3.2]}
  - {id: 3, name: red, pkey: 0x8003, subnet: [10.9.3.0/24, "fd03::/64"], members: [h4, h2, h1], default_ports: [h4]}
  - {id: 12, name: t12, mtu: 1400, members: [h1, h2]}
datapath: %s
"""
"""One host with two rails, one with addresses of its own, one whose routes need two virtual switches; qdiscs."""
HOSTS: Final = ("h1", "h2", "h3", "h4", "n1", "n2")
"""Those of the file, and those that come."""
MEMBERS: Final = (*HOSTS, "h3.2")
VESWS: Final = ("blue", "red", "t12")
KEYS: Final = (("pkey", 0x8003), ("pkey", 0x8007), ("mtu", 1400), ("mtu", 4000))
"""Keys of virtual switches that may change while their VNICs stay, with values."""
_PATIENCE_S: Final = 20.0


POINTS: Final = (
    "faults.remove", "em.apply", "machine.add", "remove_host", "take_away", "keep_lids", "lay", "add_agent",
    "boot_kernels", "machine.remove", "machine.follow", "set_up", "let_manage",
)  # fmt: skip
"""Where a change can fail, in the order in which it gets there."""


class ChangingLab:
    """A lab and what happens to it. What cannot be done, since it makes no sense now, is left out."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.live = LivingLab(lab)
        self.first = lab.model
        self.done: list[str] = []

    @property
    def members(self) -> dict[str, list[str]]:
        """The members of each virtual switch."""
        return {vesw.name: list(vesw.members) for vesw in self.lab.model.vesws}

    async def leave(self, vesw: str, member: str) -> None:
        if member in self.members[vesw] and len(self.members[vesw]) > 1:
            await self._did(f"leave {vesw} {member}", self.live.leave(vesw, [member]))

    async def join(self, vesw: str, member: str) -> None:
        if member not in self.members[vesw] and member.partition(".")[0] in self.lab.hosts:
            await self._did(f"join {vesw} {member}", self.live.join(vesw, [member]))

    async def add(self, host: str, vesws: list[str]) -> None:
        """Add a host; one of the file as the file has it."""
        if host not in self.lab.hosts:
            said = self.first.hosts.get(host)
            section = (
                None if said is None else said.model_dump(mode="json", exclude_unset=True, context=AS_WRITTEN)
            )
            await self._did(f"add {host} {vesws}", self.live.add_host(host, section, vesws=vesws))

    async def remove(self, host: str) -> None:
        alone = any({member.partition(".")[0] for member in its} == {host} for its in self.members.values())
        if host in self.lab.hosts and not alone:
            await self._did(f"remove {host}", self.live.remove_host(host))

    async def set_key(self, vesw: str, key: str, value: int) -> None:
        """Change a key of a virtual switch."""

        def edit(data: Any, _: object) -> Any:
            vesws = [{**one, key: value} if one["name"] == vesw else one for one in data["vesws"]]
            return {**data, "vesws": vesws}

        await self._did(f"{vesw}: {key} {value}", self.live.change(edit))

    async def fail(self, point: str, *, late: bool, nth: int = 1) -> None:
        """Let a change of everything fail half way. Args: late: once this step is done. nth: when it is taken again."""
        if "s9" in self.lab.world.fabric.switches:  # of a change that did not get there
            return
        before = facts_of(self.lab)
        with failing(*self._place(point), late=late, nth=nth) as failed:
            said = ""
            try:
                await self.live.change(self._everything)
            except LabError as error:
                said = str(error)
        assert ("; the lab is as before" in said) == bool(failed), said
        self.done.append(f"fail {point} {late} {nth}" if failed else "everything")
        await self.settle()
        if failed:
            assert not (other := differing(before, facts_of(self.lab))), (self.done, other)

    def _place(self, point: str) -> tuple[Any, str]:
        lab, name = self.lab, point.rpartition(".")[2]
        assert lab.manager is not None
        places = {
            "faults": lab.world.faults, "em": lab.manager.em, "machine": lab.machine, "boot_kernels": lab,
            "set_up": lab.reconciler, "remove_host": lab.world, "keep_lids": lab.world,
        }  # fmt: skip
        return places.get(point.partition(".")[0], live_steps), name

    def _everything(self, data: Any, topology: Topology) -> Any:
        """Edit all that a change can be about; a host that was there stays unless it can go."""
        vesw = data["vesws"][0]
        vesw = {**vesw, "pkey": 0x8011, "mtu": 1600, "members": vesw["members"][:1]}
        data = {
            **data,
            "vesws": [vesw, *data["vesws"][1:]],
            "faults": ["duplicate on em 1%", "loss on em 1% l4=ethernet"],  # where no host that goes is
        }
        data = edits.add_vesw(data, {"name": "green", "members": list(data["hosts"])[:2]})
        data = edits.add_host(data, topology, "n9", {"hfis": 2}, vesws=["green"])
        with contextlib.suppress(EditError):
            data = edits.remove_host(data, topology, [*data["hosts"]][-2])
        cabled = data["fabric"]["topology"]
        switch, *_ = cabled["switches"]
        port, data = edits.free_switch_port(data, topology, switch)
        cabled = data["fabric"]["topology"]
        switches, links = {**cabled["switches"], "s9": {}}, [*cabled["links"], ["s9:1", port]]
        return {
            **data,
            "fabric": {**data["fabric"], "topology": {**cabled, "switches": switches, "links": links}},
        }

    async def apply(self) -> None:
        await self._did("apply", self.live.follow(self.first))

    async def apply_saved(self) -> None:
        saved = parse_lab(save(self.lab).lab_file, "saved.yaml", {})
        assert await self.live.follow(saved, dry_run=True) == []

    async def fault(self, kind: str, place: str) -> None:
        """Let a fault pass, and wait until what it took is back."""
        if place != "em" and place not in self.lab.hosts:
            return
        number = self.lab.world.faults.add(f"{kind} on {place}").number
        await asyncio.sleep(0.2)
        self.lab.world.faults.remove(number)
        self.done.append(f"{kind} {place}")
        await self.settle()

    async def _did(self, what: str, doing: Any) -> None:
        await doing
        self.done.append(what)
        await self.settle()

    async def settle(self) -> None:
        """Wait until every VNIC is up again, and its host is what the file says."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE_S
        while wrong := [*await self._wrong()]:
            assert loop.time() < deadline, f"after {self.done}: {wrong}"
            await asyncio.sleep(0.02)

    async def _wrong(self) -> list[str]:
        found = [str(vnic) for _, vnic in self.lab.status().vnics() if not vnic.is_up]
        manager = self.lab.manager
        if manager is None or not manager.em.converged:
            found.append("the Ethernet Manager works")
        return found or await self.lab.reconciler.drift(self.lab.hosts)


@contextlib.contextmanager
def failing(owner: Any, name: str, *, late: bool, nth: int) -> Iterator[list[str]]:
    """Let the nth call of a function fail; give a list that has an entry then. Args: late: after it was done."""
    failed: list[str] = []
    calls, there = 0, getattr(owner, name)
    was_own = name in vars(owner)

    def fails() -> bool:
        nonlocal calls
        calls += 1
        return calls == nth

    def fail() -> NoReturn:
        failed.append(name)
        raise LabError(f"{name} fails")

    def call(*args: Any, **options: Any) -> Any:
        if not fails():
            return there(*args, **options)
        if not late:
            fail()
        found = there(*args, **options)
        if asyncio.iscoroutine(found):
            return then_fail(found)
        return fail()

    async def then_fail(found: Any) -> None:
        await found
        fail()

    setattr(owner, name, call)
    try:
        yield failed
    finally:
        if was_own:
            setattr(owner, name, there)
        else:
            delattr(owner, name)


async def changed_at_random(lab: Lab, seed: int, steps: int) -> ChangingLab:
    """Do so much to a lab, drawn from a seed."""
    draw, changing = random.Random(seed), ChangingLab(lab)
    while len(changing.done) < steps:
        vesw, member, host = draw.choice(VESWS), draw.choice(MEMBERS), draw.choice(HOSTS)
        match draw.choice(
            ("leave", "join", "key", "add", "remove", "apply", "fail", "crash", "hfi-removal", "em")
        ):
            case "leave":
                await changing.leave(vesw, member)
            case "join":
                await changing.join(vesw, member)
            case "key":
                await changing.set_key(vesw, *draw.choice(KEYS))
            case "add":
                await changing.add(host, draw.sample(VESWS, draw.randrange(4)))
            case "remove":
                await changing.remove(host)
            case "apply":
                await changing.apply()
            case "fail":
                await changing.fail(draw.choice(POINTS), late=draw.random() < 0.5)
            case "em":
                await changing.fault("crash", "em")
            case kind:
                await changing.fault(kind, host)
        await changing.apply_saved()
    return changing


def facts_of(lab: Lab) -> dict[str, Any]:
    """Return names, addresses, MACs, routes, LIDs, vports, journal and status of a lab."""
    fabric, state = lab.world.fabric, lab.status()
    return {
        "vnics": {
            f"{host.name} {vnic.vesw} {vnic.port}": (
                vnic.interface, vnic.ip, vnic.other_ips, vnic.mac, vnic.lid, vnic.vport_num, vnic.mtu, vnic.state,
            )
            for host, vnic in state.vnics()
        },
        "hosts": {host.name: (host.namespace, host.lid, host.speed) for host in state.hosts},
        "links": sorted(link.name for link in state.links),
        "guids": {name: hex(node.node_guid) for name, node in (*fabric.hfis.items(), *fabric.switches.items())},
        "lids": {port.name: port.lid for port in fabric.hfi_ports()},
        "pkeys": {port.name: sorted(port.pkeys.borne) for port in fabric.hfi_ports()},
        "switches": {name: switch.lid for name, switch in fabric.switches.items()},
        "numbers": lab.model.numbers,
        "journal": sorted((entry.host, entry.name) for entry in lab.machine.journal.netdevs),
        "waiting": {name: lab.reconciler.waiting(name) for name in lab.hosts},
        "kernels": {name: sorted(_kernel_facts(lab, name)) for name in lab.hosts},
        "balance": state.balance,
        "saved": save(lab).lab_file,
    }  # fmt: skip


def _kernel_facts(lab: Lab, host: str) -> Iterator[str]:
    """Yield what the kernel of a host says of its addresses, routes and qdiscs."""
    namespace = lab.hosts[host].namespace
    if namespace is None:
        return
    with contextlib.closing(LinkClient(namespace)) as links:
        names = {link.ifindex: link.name for link in links.links_now()}
        for ifindex, addresses in links.ip_addresses().items():
            yield from (f"{names[ifindex]} {address}" for address in addresses)
    with contextlib.closing(QdiscClient(namespace)) as qdiscs:
        yield from (f"{names[one.ifindex]} {one.kind} {one.options.hex()}" for one in qdiscs.qdiscs())
    with contextlib.closing(RouteClient(namespace)) as client:
        for route in client.routes():
            via, dev = sorted(map(str, route.via)), sorted(names[ifindex] for ifindex in route.ifindexes)
            yield f"{route.to} via {via} dev {dev} metric {route.metric}"


def differing(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return what two labs do not have in common."""
    return {key: (before[key], after[key]) for key in before if before[key] != after[key]}
