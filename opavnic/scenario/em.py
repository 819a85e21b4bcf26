"""The Ethernet Manager of a scenario: virtual switches by name, created and changed with real MADs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.did_you_mean import unknown_name
from hfi_sim.mad.header import Method
from hfi_sim.port_state import CapabilityMask3, PortState
from hfi_sim.types import mac_text, parse_mac
from opavnic.em_port import SmTopology, make_em
from opavnic.scenario.hosts import ScenarioError, ScenarioHost, ScenarioVnic
from vema.attributes.mac_entries import MacEntries, MacEntry
from vema.em.core import EmCore
from vema.em.desired import EmConfigError, parse_config
from vema.em.mac_tables import EMPTY
from vema.em.messages import build_request, read_response
from vema.errors import AgentError
from vema.types import AttrId

if TYPE_CHECKING:
    from opavnic.scenario.scenario import Scenario

DEFAULT_PKEY: Final = 0x8001
CONVERGENCE_S: Final = 60.0
_ABSENT_SHOWN: Final = 4

Members = Iterable["str | ScenarioHost"]
Wait = bool | Members
"""Which members a change waits for: True: all; hosts: only these; False: none."""


class ScenarioEm:
    """Runs on the scenario's `em` node, like the subnet manager."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.port = scenario.world.em_port
        self.vesws: dict[str, dict[str, Any]] = {}
        """The desired state by name, in the form of the section `vesws` of an EM file."""
        self.service = make_em(
            SmTopology(scenario.subnet_manager, self.port),
            self.port,
            clock=scenario.clock,
            wall_clock=scenario.clock.time,
        )
        self._vnics: dict[tuple[str, str], ScenarioVnic] = {}

    def start(self) -> None:
        """Start without virtual switches."""
        self.service.start(parse_config(self._config({})))

    def stop(self) -> None:
        """Stop; agents keep their configuration."""
        self.service.stop()

    @property
    def core(self) -> EmCore:
        """The manager's own view of ports and vports.

        Raises:  ScenarioError: it is not running.
        """
        if self.service.core is None:
            raise ScenarioError("the Ethernet Manager is not running")
        return self.service.core

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

        Args:    members: hosts; id: default: the lowest free one from 1; wait: False: do not wait; hosts: wait only
                 for these, if others are absent on purpose; timeout: seconds; options: pkey, mtu, default_ports, qos,
                 rc, mac, link, as in an EM file.
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
        """Create many virtual switches at once: name -> members; the other arguments are those of `vesw`.

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
        """Change a virtual switch and wait until every member has applied the change; `wait`, `timeout`: see `vesw`.

        Raises:  ScenarioError: an unknown virtual switch or host, or a change that is refused: nothing has changed.
                 Or members have not applied it in time; the message says which, and why. The change then stays
                 configured.
        """
        vesw = {**self._known(name), **_plain(changes)}
        if members is not None:
            vesw["members"] = self._names(members)
        await self._settle({**self.vesws, name: vesw}, [name], wait, timeout)

    async def remove(self, name: str) -> None:
        """Delete a virtual switch from all its members, and wait until it is gone."""
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
            read_response(request, await self.port.mad.request(vnic.host.port.lid, request))
        except AgentError as error:
            raise ScenarioError(f"{vnic.name}: the MAC table was refused: {error}") from error

    def addresses(self, host: str | ScenarioHost) -> set[str]:
        """Return the unicast addresses of a host that the manager has learned, without those it assigned itself."""
        guid = int(self._host(host).port.guid)
        known = [vport.unicast.macs for port, vport in self.core.vports() if port.facts.guid == guid]
        return {mac_text(mac) for macs in known for mac in macs}

    def vnic_of_vport(self, host: str, vport_num: int) -> ScenarioVnic | None:
        """Return the VNIC to which the manager has assigned a vport of a host, or None."""
        guid = int(self._scenario.hosts[host].port.guid)
        port = self.core.ports.get(guid)
        vport = port.vports.get(vport_num) if port is not None else None
        names = {vesw["id"]: name for name, vesw in self.vesws.items()}
        return self._vnics.get((host, names[vport.vesw_id])) if vport and vport.vesw_id in names else None

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
        wanted[name] = {"id": chosen, "name": name, "pkey": DEFAULT_PKEY, **_plain(options)}
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
        return [self._host(host).name for host in members]

    def _give_vnics(self) -> None:
        """Give each host the VNIC objects of the virtual switches that it is a member of."""
        for place, host in enumerate(self._scenario.hosts, 1):
            host.vnics.clear()
            for name, vesw in self.vesws.items():
                if host.name not in vesw["members"]:
                    continue
                key = (host.name, name)
                if key not in self._vnics:
                    self._vnics[key] = ScenarioVnic(host, name, place, vesw["id"])
                host.vnics[name] = self._vnics[key]

    def _config(self, vesws: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        return {
            "fabric": {"id": self._scenario.fabric_id},
            "polling": {
                "interval": 0,
                "audit": 0,
            },  # rely on traps, so that links carry only what the test sends
            "vesws": list(vesws.values()),
        }

    def _set_pkeys(self, vesws: Mapping[str, dict[str, Any]]) -> None:
        for host in self._scenario.hosts:
            pkeys = [vesw["pkey"] for vesw in vesws.values() if host.name in vesw["members"]]
            self._scenario.subnet_manager.set_pkeys(host.port, pkeys)

    def _apply(self, wanted: dict[str, dict[str, Any]]) -> None:
        """Make `wanted` the desired state, or raise and change nothing."""
        try:
            config = parse_config(self._config(wanted))
            self._set_pkeys(wanted)  # the manager checks them before it accepts a configuration
            self.service.apply(config)
        except EmConfigError as error:
            self._set_pkeys(self.vesws)
            named = {name for vesw in wanted.values() for name in vesw["members"]}
            gone = [host.name for host in self._scenario.hosts if host.name in named and not _has_agent(host)]
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
            (self._scenario.hosts[member], name)
            for name in changed
            for member in wanted[name]["members"]
            if chosen is None or member in chosen
        ]
        try:
            async with asyncio.timeout(timeout_s):
                await self.service.wait_for(lambda: self._has_come(awaited), 2 * timeout_s)
                self.give_links()
                for host, name in awaited:
                    await self._scenario.vnic_up(host.vnics[name])
        except TimeoutError:
            raise ScenarioError(self._absent(awaited, timeout_s)) from None

    def _has_come(self, awaited: Iterable[tuple[ScenarioHost, str]]) -> bool:
        return self.service.converged and all(not self.why_absent(host, name) for host, name in awaited)

    def give_links(self) -> None:
        """Connect each VNIC to the netdev of the vport that the manager has assigned to it."""
        for port, vport in list(self.core.vports()):
            host = self._scenario.hosts[port.facts.host]
            if (vnic := self.vnic_of_vport(host.name, vport.num)) is not None:
                vnic.vport_num = vport.num
                vnic.link = self._scenario.links.get((host.name, vport.num))

    # --- members that are absent ---------------------------------------------------------------------------

    def _absent(self, awaited: Iterable[tuple[ScenarioHost, str]], timeout_s: float) -> str:
        """Return which members have not come up, and why."""
        why = [
            f"{host.name}/{name}: {text}" for host, name in awaited if (text := self.why_absent(host, name))
        ]
        if not why and self.service.converged:
            why = [
                f"{host.name}/{name}: configured, but its device is not up"
                for host, name in awaited
                if not self._scenario.is_up(host.vnics[name])
            ]
        if not why:
            return f"the Ethernet Manager has not converged within {timeout_s:g} s"
        more = [f"and {len(why) - _ABSENT_SHOWN} more"] if len(why) > _ABSENT_SHOWN else []
        return (
            f"not up within {timeout_s:g} s: {'; '.join([*why[:_ABSENT_SHOWN], *more])} "
            "(wait=False does not wait, wait=[hosts] waits only for these)"
        )

    def why_absent(self, host: ScenarioHost, name: str) -> str:
        """Return why the manager has not configured a member's VNIC on a virtual switch; empty if it has."""
        if host.port.state is not PortState.ACTIVE:
            return f"the link of {host.port.name} is down"
        if host.port not in self._scenario.subnet_manager.ports_in_service():
            return f"the subnet manager cannot reach {host.port.name}"
        if not _has_agent(host):
            return "its management agent is gone"
        port = self.core.ports.get(int(host.port.guid))
        if port is None or not port.in_service:
            return "the Ethernet Manager has not discovered it"
        if port.isolated:
            return f"isolated: {port.isolated}"
        vesw_id = self.vesws[name]["id"]
        if not any(vport.vesw_id == vesw_id and vport.done for vport in port.vports.values()):
            return "its management agent does not answer" if port.failures else "it is not configured"
        return ""


def _has_agent(host: ScenarioHost) -> bool:
    return CapabilityMask3.ETH_ON_FABRIC_SUPPORTED in host.port.capability_mask3


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in the form of an EM file, with hosts by name."""
    plain = dict(options)
    if "default_ports" in plain:
        hosts = plain["default_ports"]
        plain["default_ports"] = [host if isinstance(host, str) else host.name for host in hosts]
    return plain
