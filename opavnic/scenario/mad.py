"""The MAD simulator on the fabric of a scenario, in place of the Ethernet Manager or of a host's agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any, Final

from hfi_sim.base.text import unknown_name
from opavnic.scenario.base import ScenarioError
from opavnic.scenario.em import DEFAULT_PKEY
from opavnic.scenario.hosts import ScenarioFabric, ScenarioHost
from opavnic.scenario.managers import CONVERGENCE_S
from opavnic.scenario.vnic import ScenarioVnic
from opavnic.world.host_backends.given import VnicKey
from vema.attributes.attr_id import AttrId
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.lmac import Lmac
from vema.base.types import ConfigState
from vema.em.service.simulator import MadSimulator, Target

_FIELDS: Final = tuple(field.name for field in fields_of(VeswPortInfo))


class ScenarioSimulator(MadSimulator):
    """Lets the test act as the Ethernet Manager on the scenario's `em` node.

    Methods that take a LID also take a host. Every host is in partition 0x8001. A vport that the test configures
    becomes the VNIC `vportN` of its host.
    """

    def __init__(self, scenario: ScenarioFabric) -> None:
        """Start receiving the traps that arrive at the `em` node."""
        self.port = scenario.world.em_port
        super().__init__(self.port.mad)
        self._scenario = scenario
        self._vnics: dict[VnicKey, ScenarioVnic] = {}

    def start(self) -> None:
        """Add every host to the partition."""
        for host in self._scenario.hosts:
            for port in host.ports:
                self._scenario.subnet_manager.set_pkeys(port, [DEFAULT_PKEY])

    def lid_of(self, target: Target | str) -> int:
        """Return the LID of a target.

        Args:    target: a LID, a host or a port; or the name of a host, of an HFI, or HFI:PORT.
        Raises:  ScenarioError: no host of this scenario has that name, or the target has no LID.
        """
        if isinstance(target, str):
            return int(self._scenario.hosts.member(target)[1].lid)
        if not isinstance(target, int) and not hasattr(target, "lid"):
            raise ScenarioError(f"{target!r} has no LID; give a host, a port, or a LID such as 0x2")
        return super().lid_of(target)

    async def configure(self, host: str | ScenarioHost, *, vport: int = 1, **fields: Any) -> VeswPortInfo:
        """Configure a vport of a host as a manager would, wait until it is up, and return the agent's response.

        Args:    host: its name means its first port; `h1.2` and `h1.2:1` are others.
                 fields: fields of VeswPortInfo to set; vesw_id is 1 unless given. Other fields keep the agent's value,
                 except those that a vport needs to forward: partition 0x8001, the host's LID as SLID, a locally
                 administered address, config_state FORWARDING. If it is not to forward, this does not wait for it.
        Raises:  AgentError: the agent refused it. MadTimeoutError: the agent did not answer. ScenarioError: an unknown
                 host or field; or the VNIC is not up within a minute.
        """
        owner, port = self._scenario.hosts.member(host)
        for name in fields:
            if name not in _FIELDS:
                raise ScenarioError(f"configure: {unknown_name('field', name, _FIELDS)}")
        seen = await self.get(port, AttrId.VESW_PORT_INFO, vport=vport)
        vesw_id = fields.get("vesw_id", 1)
        needed = {
            "vesw_id": vesw_id,
            "fabric_id": self._scenario.fabric_id,
            "pkey": DEFAULT_PKEY,
            "encap_slid": port.lid,
            "vesw_port_num": port.lid,
            "base_mac": Lmac(self._scenario.fabric_id, vesw_id, port.lid).build(),
            "config_state": ConfigState.FORWARDING,
        }
        wanted = replace(seen, **{**needed, **fields})
        answer = await self.set(port, AttrId.VESW_PORT_INFO, wanted, vport=vport)
        assert isinstance(answer, VeswPortInfo)  # noqa: S101 - the parser of that attribute
        if wanted.vesw_id and wanted.config_state == ConfigState.FORWARDING:
            vnic = self.vnic_of_vport(owner.name, VnicKey(port.name, vport))
            try:
                await asyncio.wait_for(self._scenario.vnic_up(vnic), CONVERGENCE_S)
            except TimeoutError:
                raise ScenarioError(f"{vnic.name} is not up within {CONVERGENCE_S:g} s") from None
        return answer

    def group(self, hosts: Iterable[str | ScenarioHost]) -> int:
        """Create a multicast group and return its LID, for `u_mcast_dlid`. Args: hosts: its members, or their names."""
        manager = self._scenario.subnet_manager
        mlid = manager.groups.create()
        for host in map(self._scenario.hosts.find, hosts):
            manager.groups.join(mlid, host.port)
        return int(mlid)

    def vnic_of_vport(self, host: str, key: VnicKey) -> ScenarioVnic:
        """Return the VNIC object of a vport, with which its host sends and expects frames."""
        hosts = self._scenario.hosts
        if key not in self._vnics:
            ports = hosts[host].ports
            nth = [port.name for port in ports].index(key.port)
            number = hosts.names.index(host) + 1 + nth * len(hosts)
            vnic = ScenarioVnic(hosts[host], ports[nth], f"vport{key.vport_num}", number, key.vport_num, nth)
            hosts[host].vnics[vnic.title] = self._vnics[key] = vnic
        return self._vnics[key]

    def stop(self) -> None:
        """Stop receiving traps; agents keep their configuration."""
        self.close()
