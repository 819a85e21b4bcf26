"""The Ethernet Manager of a scenario: virtual switches by name, created and changed with real MADs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Final

from hfi_sim.base.text import unknown_name
from hfi_sim.base.types import mac_text, parse_mac
from hfi_sim.wire.mad.header import Method
from opavnic.scenario.base import ScenarioError
from opavnic.scenario.hosts import ScenarioFabric, ScenarioHost, member_name
from opavnic.scenario.managers import (
    BEST,
    CONVERGENCE_S,
    Converging,
    EmStandby,
    Manager,
    cut_short,
    em_options,
    has_agent,
    not_up,
    why_absent,
)
from opavnic.scenario.vnic import ScenarioVnic
from opavnic.state.em import EmEvent
from opavnic.world.em_node import EM_NODE, down_text
from opavnic.world.host_backends.given import VnicKey
from vema.attributes.attr_id import AttrId
from vema.attributes.mac_entries import MacEntries, MacEntry
from vema.base.errors import AgentError
from vema.em.core.core import EmCore
from vema.em.core.messages import build_request, read_response
from vema.em.desired.desired import EmConfig, EmConfigError, parse_config
from vema.em.desired.election import Role
from vema.em.desired.mac_tables import EMPTY
from vema.em.service.service import EthernetService
from vema.em.store.database import EVENTS_KEPT

DEFAULT_PKEY: Final = 0x8001

Members = Iterable["str | ScenarioHost"]
Wait = bool | Members
"""Which members a change waits for: True: all; hosts: only these; False: none."""


class ScenarioEm:
    """Runs on the scenario's `em` node, like the subnet manager; `standby` adds others, on hosts."""

    def __init__(self, scenario: ScenarioFabric) -> None:
        self._scenario = scenario
        self.port = scenario.world.em_port
        self.vesws: dict[str, dict[str, Any]] = {}
        """The desired state by name, in the form of the section `vesws` of an EM file."""
        self._first = Manager(scenario, self.port, BEST)
        self._standbys: list[EmStandby] = []
        self._vnics: dict[tuple[str, str], ScenarioVnic] = {}
        """By port and virtual switch."""
        scenario.faults.hook(EM_NODE, self._first.service.halt, self._first.service.restart)

    @property
    def service(self) -> EthernetService:
        """The manager itself: of several, the master; if there is none, the first that runs."""
        services = [manager.service for manager in self._managers]
        running = [service for service in services if service.core is not None]
        masters = [service for service in running if service.role is Role.MASTER]
        return [*masters, *running, *services][0]

    @property
    def _managers(self) -> list[Manager]:
        return [self._first, *(standby.manager for standby in self._standbys)]

    @property
    def events(self) -> list[EmEvent]:
        """What the manager has written down, oldest first; of several, the master. Nothing of one halted for good."""
        store = self.service.store
        return [] if store.is_closed else list(map(EmEvent.of, store.events(limit=EVENTS_KEPT)))

    # --- life ----------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether the manager on the `em` node runs."""
        return self._first.service.core is not None

    def begin(self) -> None:
        """Start without virtual switches, at the beginning of the scenario."""
        self._first.service.start(self._config_of(self._first, {}))

    def close(self) -> None:
        """Stop all managers for good, at the end of the scenario."""
        self._scenario.faults.unhook(EM_NODE)
        for manager in self._managers:
            manager.service.stop()

    def stop(self) -> None:
        """Stop the manager, as if its process were killed; agents and VNICs go on as they are. See `start`."""
        self._first.service.halt()

    def start(self) -> Awaitable[None]:
        """Start the manager again after `stop`, with its database; `await em.start()` waits until it has converged.

        Raises:  ScenarioError: it is running, or the fault `crash on em` holds it down.
        """
        if self.is_running:
            raise ScenarioError("the Ethernet Manager is running already")
        return self.restart()

    def restart(self, *, memory: bool = True) -> Awaitable[None]:
        """Stop the manager if it runs, and start it; `await em.restart()` also waits until it has converged.

        What it is to configure stays the same.

        Args:    memory: False: its database is lost, so that it asks the agents what they have.
        Raises:  ScenarioError: the fault `crash on em` holds it down. When awaited: not converged within a minute.
        """
        if held := self._scenario.faults.holding(EM_NODE):
            raise ScenarioError(
                f"fault {held[0]} (crash on em) holds the Ethernet Manager down; remove it first"
            )
        self._first.service.restart(memory=memory)
        return Converging(self._first.service)

    async def standby(self, on: str | ScenarioHost | None = None) -> EmStandby:
        """Start one more manager on a host, and wait until the first one is the master of both.

        The standby takes over 1 s after the master has ended. It is given each change of the desired state, too; if
        the manager on the `em` node starts again, that becomes the master again.

        Args:    on: the host whose port it uses; default: the last one without a manager.
        Raises:  ScenarioError: every host has one, or the manager on the `em` node does not run.
        """
        self._scenario.check_loop()
        if not self.is_running:
            raise ScenarioError(
                "the Ethernet Manager is stopped; em.start() starts it again, then it can have a standby"
            )
        taken = [standby.host for standby in self._standbys]
        if on is None:
            free = [host for host in self._scenario.hosts if host not in taken]
            if not free:
                raise ScenarioError("every host has a standby manager already")
            host = free[-1]
        elif (host := self._host(on)) in taken:
            raise ScenarioError(f"host {host.name} has a standby manager already")
        self._scenario.subnet_manager.set_management(host.port, True)
        manager = Manager(self._scenario, host.port, BEST - 1 - len(taken))
        standby = EmStandby(host, manager)
        self._standbys.append(standby)
        manager.service.start(self._config_of(manager, self.vesws))
        self._first.service.apply(self._config_of(self._first, self.vesws))
        if not await manager.service.wait_for(lambda: self._is_led(manager), CONVERGENCE_S):
            raise ScenarioError(
                f"the manager on {host.name} has heard of no master within {CONVERGENCE_S:g} s"
            )
        return standby

    def _is_led(self, standby: Manager) -> bool:
        """Return whether a standby knows a master that is at work."""
        election = standby.service.election
        return (
            election is not None
            and standby.service.role is Role.STANDBY
            and election.master not in (None, int(standby.port.guid))
            and self.service.converged
        )

    @property
    def core(self) -> EmCore:
        """The manager's own view of ports and vports.

        Raises:  ScenarioError: it is not running.
        """
        core = self.service.core
        if core is None:
            if held := self._scenario.faults.holding(EM_NODE):
                raise ScenarioError(down_text(held))
            raise ScenarioError("the Ethernet Manager is stopped; em.start() starts it again")
        return core

    async def vesw(
        self,
        name: str,
        *,
        members: Members,
        id: int | None = None,  # noqa: A002 - the EM file's word for it
        wait: Wait = True,
        timeout: float = CONVERGENCE_S,  # noqa: ASYNC109 - fails with a message of its own
        **options: Any,
    ) -> None:
        """Create a virtual switch and wait until every member is up.

        Args:    members: hosts, or their ports as in a lab file: `h1.2`, `h1.2:1`, a GUID; id: default: the lowest free
                 one from 1; wait: False: do not wait; hosts: wait only for these, if others are absent on purpose;
                 timeout: seconds; options: pkey, mtu, default_ports, qos, rc, mac, link, as in an EM file.
        Raises:  ScenarioError: an unknown host or option, or a name or id in use: nothing has changed. Or members are
                 not up in time; the message says which, and why. The virtual switch then stays configured.
        """
        wanted = dict(self.vesws)
        self._add(wanted, name, members, id, options)
        await self._settle(wanted, [name], wait, timeout)

    async def vesws_of(
        self,
        members: Mapping[str, Members],
        *,
        wait: Wait = True,
        timeout: float = CONVERGENCE_S,  # noqa: ASYNC109 - as `vesw`
        **options: Any,
    ) -> None:
        """Create many virtual switches at once.

        Args:    members: by the name of the virtual switch. wait: as `vesw`. timeout: in seconds, for all of them.
                 options: those of `vesw`, for each.
        Raises:  ScenarioError: as `vesw`.
        """
        wanted = dict(self.vesws)
        for name, hosts in members.items():
            self._add(wanted, name, hosts, None, options)
        await self._settle(wanted, members, wait, timeout)

    async def update(
        self,
        name: str,
        *,
        members: Members | None = None,
        wait: Wait = True,
        timeout: float = CONVERGENCE_S,  # noqa: ASYNC109 - as `vesw`
        **changes: Any,
    ) -> None:
        """Change a virtual switch and wait until every member has applied the change.

        Args:    name: of the virtual switch. members: all that it is to have; None: those it has. wait: as `vesw`.
                 timeout: in seconds. changes: options of `vesw`, such as `mtu=1400`.
        Raises:  ScenarioError: an unknown virtual switch or host, or a change that is refused: nothing has changed.
                 Or members have not applied it in time; the message says which, and why. The change then stays
                 configured.
        """
        vesw = {**self._known(name), **em_options(changes)}
        if members is not None:
            vesw["members"] = self._names(members)
        await self._settle({**self.vesws, name: vesw}, [name], wait, timeout)

    async def remove(self, name: str) -> None:
        """Delete a virtual switch from all its members, and wait until it is gone.

        Args:    name: of the virtual switch.
        Raises:  ScenarioError: it is unknown.
        """
        self._known(name)
        await self._settle({other: vesw for other, vesw in self.vesws.items() if other != name}, [], True)

    async def set_mac_table(
        self,
        host: str | ScenarioHost,
        table: Sequence[tuple[str, str | ScenarioHost | None]],
        *,
        on: str | None = None,
    ) -> None:
        """Write the MAC table of a VNIC, starting at its first entry, without the manager, which leaves it unchanged.

        Args:    table: MAC addresses with the host behind each, in the order of the entries; None as the host
                 removes that entry.
        Raises:  ScenarioError: the agent refused it, or the manager writes the tables of this virtual switch itself
                 (`mac="learn"`). MadTimeoutError: the agent did not answer.
        """
        vnic = self._host(host).vnic(on)
        if self._known(vnic.vesw).get("mac") == "learn":
            raise ScenarioError(f"{vnic.name}: the manager writes this MAC table itself (mac: learn)")
        entries = [
            None
            if target is None
            else MacEntry(parse_mac(mac), b"\xff" * 6, self._host(target).port.lid << 8)
            for mac, target in table
        ]
        request = build_request(
            Method.SET,
            AttrId.MAC_ENTRIES,
            # the digest of an empty table: the manager would clear a table with any other digest
            MacEntries(offset=0, entries=tuple(entries), digest=EMPTY).build(),
            attr_mod=vnic.vport_num,
        )
        try:
            read_response(request, await self.port.mad.request(vnic.port.lid, request))
        except AgentError as error:
            raise ScenarioError(f"{vnic.name}: the MAC table was refused: {error}") from error

    def addresses(self, host: str | ScenarioHost) -> set[str]:
        """Return the unicast addresses learned of a host, without those assigned to it. Args: host: or its name."""
        guid = int(self._host(host).port.guid)
        known = [vport.unicast.macs for port, vport in self.core.vports() if port.facts.guid == guid]
        return {mac_text(mac) for macs in known for mac in macs}

    def vnic_of_vport(self, host: str, key: VnicKey) -> ScenarioVnic | None:
        """Return the VNIC to which the manager has assigned a vport of a host, or None."""
        guids = {port.name: int(port.guid) for port in self._scenario.hosts[host].ports}
        port = self.core.ports.get(guids[key.port])
        vport = port.vports.get(key.vport_num) if port is not None else None
        names = {vesw["id"]: name for name, vesw in self.vesws.items()}
        return self._vnics.get((key.port, names[vport.vesw_id])) if vport and vport.vesw_id in names else None

    # --- desired state -------------------------------------------------------------------------------------

    def _add(
        self,
        wanted: dict[str, dict[str, Any]],
        name: str,
        members: Members,
        vesw_id: int | None,
        options: Mapping[str, Any],
    ) -> None:
        if name in wanted:
            raise ScenarioError(f"virtual switch {name} already exists; use `update`")
        used = {vesw["id"] for vesw in wanted.values()}
        chosen = vesw_id if vesw_id is not None else next(n for n in range(1, 4096) if n not in used)
        if chosen in used:
            raise ScenarioError(f"virtual switch id {chosen} is in use")
        wanted[name] = {"id": chosen, "name": name, "pkey": DEFAULT_PKEY, **em_options(options)}
        wanted[name]["members"] = self._names(members)

    def _known(self, name: str) -> dict[str, Any]:
        if name not in self.vesws:
            raise ScenarioError(unknown_name("virtual switch", name, self.vesws))
        return self.vesws[name]

    def _host(self, host: str | ScenarioHost) -> ScenarioHost:
        return self._scenario.hosts.find(host)

    def _names(self, members: Members) -> list[str]:
        if isinstance(members, str):
            raise ScenarioError(f'members is "{members}"; it is a list of hosts, such as ["{members}"]')
        return [member_name(*self._scenario.hosts.member(member)) for member in members]

    def _give_vnics(self) -> None:
        """Give each host the VNIC objects of the virtual switches that it is a member of."""
        hosts = self._scenario.hosts
        for host in hosts:
            host.vnics.clear()
        for name, vesw in self.vesws.items():
            there = Counter[str]()
            for host, port in map(hosts.member, vesw["members"]):
                nth = there[host.name]
                there[host.name] += 1
                key = (port.name, name)
                if key not in self._vnics or self._vnics[key].nth != nth:
                    number = host.place + nth * hosts.most
                    self._vnics[key] = ScenarioVnic(host, port, name, number, vesw["id"], nth)
                vnic = self._vnics[key]
                host.vnics[vnic.title] = vnic

    def _config_of(self, manager: Manager, vesws: Mapping[str, dict[str, Any]]) -> EmConfig:
        config: dict[str, Any] = {
            "fabric": {"id": self._scenario.fabric_id},
            # rely on traps, so that links carry only what the test sends
            "polling": {"interval": 0, "audit": 0},
            "vesws": list(vesws.values()),
        }
        if self._standbys:
            config["election"] = manager.election
        return parse_config(config)

    def _set_pkeys(self, vesws: Mapping[str, dict[str, Any]]) -> None:
        for host in self._scenario.hosts:
            for port in host.ports:
                member = member_name(host, port)
                pkeys = [vesw["pkey"] for vesw in vesws.values() if member in vesw["members"]]
                self._scenario.subnet_manager.set_pkeys(port, pkeys)

    def _apply(self, wanted: dict[str, dict[str, Any]]) -> None:
        """Make `wanted` the desired state, or raise and change nothing."""
        self._scenario.check_loop()
        master = self.core and self.service
        try:
            configs = {manager: self._config_of(manager, wanted) for manager in self._managers}
            self._set_pkeys(wanted)  # the manager checks them before it accepts a configuration
            for manager in sorted(self._managers, key=lambda manager: manager.service is not master):
                service = manager.service
                (service.begin_with if service.core is None else service.apply)(configs[manager])
        except EmConfigError as error:
            self._set_pkeys(self.vesws)
            named = {name for vesw in wanted.values() for name in vesw["members"]}
            ports = map(self._scenario.hosts.member, named)
            gone = sorted(member_name(host, port) for host, port in ports if not has_agent(port))
            why = f" (the management agents of {', '.join(gone)} are gone)" if gone else ""
            raise ScenarioError(f"{error}{why}") from error
        self.vesws = wanted
        self._give_vnics()

    async def _settle(
        self,
        wanted: dict[str, dict[str, Any]],
        changed: Iterable[str],
        wait: Wait,
        timeout_s: float = CONVERGENCE_S,
    ) -> None:
        """Bring partitions and VNICs to the desired state, and wait until the VNICs of `changed` are up."""
        if not timeout_s > 0:
            raise ScenarioError(f"timeout is {timeout_s!r}; it is a number of seconds above 0")
        chosen = None if isinstance(wait, bool) else set(self._names(wait))
        self._apply(wanted)
        if wait is False:
            return
        awaited = [
            self._vnics[port.name, name]
            for name in changed
            for member in wanted[name]["members"]
            if chosen is None or member in chosen
            for _, port in [self._scenario.hosts.member(member)]
        ]
        try:
            async with asyncio.timeout(timeout_s):
                if not await self.service.wait_for(
                    lambda: self._has_come(awaited, chosen is None), 2 * timeout_s
                ):
                    raise ScenarioError(
                        f"{cut_short(self.service)} before {', '.join(changed) or 'this'} was done"
                    )
                self.give_links()
                for vnic in awaited:
                    await self._scenario.vnic_up(vnic)
        except TimeoutError:
            why = [f"{vnic.name}: {text}" for vnic in awaited if (text := self.why_absent(vnic))]
            raise ScenarioError(not_up(self.service, awaited, why, timeout_s)) from None

    def _has_come(self, awaited: Iterable[ScenarioVnic], wholly: bool) -> bool:
        """Return whether members are configured. Args: wholly: and the manager waits for no other member."""
        ready = self.service.converged if wholly else self.core.active
        return ready and not any(map(self.why_absent, awaited))

    def give_links(self) -> None:
        """Connect each VNIC to the netdev of the vport that the manager has assigned to it."""
        for port, vport in list(self.core.vports()):
            key = VnicKey(port.facts.name, vport.num)
            if (vnic := self.vnic_of_vport(port.facts.host, key)) is not None:
                vnic.vport_num = vport.num
                vnic.link = self._scenario.links.get(key)

    # --- members that are absent ---------------------------------------------------------------------------

    def why_absent(self, vnic: ScenarioVnic) -> str:
        """Return why the manager has not configured a member's VNIC on its virtual switch; empty if it has."""
        return why_absent(self.core, vnic, self.vesws[vnic.vesw]["id"])
