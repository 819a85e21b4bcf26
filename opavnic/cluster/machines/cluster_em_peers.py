"""The Ethernet Managers of a cluster: which machines run one, and how the newest configuration reaches all of them.

The coordinator runs one; `cluster: {em_standby: [beta]}` in the lab file adds others, each on the port of a host of its
machine. They elect the master over the fabric (`vema.em.desired.election`). Configurations are numbered: the one
applied last has the highest number, and a machine that meets another with a lower number sends it the newer one. If
two have the same number, as after a partition in which both sides applied one, the configuration of the machine that
comes first in the lab file wins.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.did_you_mean import unknown_name
from hfi_sim.fabric.topology.explicit import hfi_names
from opavnic.cluster.errors import AskError, ClusterError, ClusterInputError
from opavnic.cluster.machines.part import AGAIN_S
from opavnic.cluster.protocol.placement import Placement
from opavnic.cluster.protocol.transport import NodeName
from opavnic.lab.file.model import LabModel
from opavnic.world.em_node import EM_NODE
from vema.em.desired.desired import EmConfig, EmConfigError, parse_config
from vema.em.service.service import EthernetService

if TYPE_CHECKING:
    from opavnic.cluster.machines.node import Machine

log = logging.getLogger("opavnic.cluster")

_MAX_CONFIG_BYTES: Final = 1 << 26
"""Upper limit of an unpacked configuration, against decompression bombs; 100,000 members take a tenth of this."""


def em_nodes(model: LabModel, placement: Placement) -> dict[str, str]:
    """Return each machine with an Ethernet Manager and the manager's node, the coordinator first; empty: no standby.

    Raises:  ClusterInputError: a standby is not a machine, is the coordinator, or has no host to run on.
    """
    coordinator, *others = placement.hosts
    found = {coordinator: EM_NODE}
    for index, machine in enumerate(model.cluster.em_standby):
        path = f"cluster.em_standby[{index}]"
        if machine == coordinator:
            there = ", ".join(others) or "there are none"
            raise ClusterInputError(
                f"{path}: {machine} is the coordinator, which runs the first Ethernet Manager already: name one of the "
                f"other machines ({there})"
            )
        if machine not in placement.hosts:
            raise ClusterInputError(f"{path}: {unknown_name('machine', machine, others)}")
        found[machine] = _host_for(model, placement, path, machine, coordinator)
    return found if len(found) > 1 else {}


def _host_for(model: LabModel, placement: Placement, path: str, machine: str, coordinator: str) -> str:
    """Return the host of a machine that its manager runs on: the first that may manage the fabric."""
    hosts = placement.hosts[machine]
    if not hosts:
        raise ClusterInputError(
            f"{path}: {machine} has no host to run its Ethernet Manager on: place one there, such as "
            f"`place: {{{next(iter(model.hosts))}: {machine}}}`, or name a machine that has one"
        )
    able = [host for host in hosts if model.hosts[host].may_manage is not False]
    if not able:
        raise ClusterInputError(
            f"{path}: no host of {machine} may manage the fabric: take `may_manage: false` off one of "
            f"{', '.join(hosts)}"
        )
    able.sort(key=lambda host: not model.hosts[host].may_manage)
    cut_off = {}
    for host in able:
        at = _remote_switch(model, placement, host)
        if at is None or placement.machine_of[at] != coordinator:
            return host
        cut_off[host] = at
    host, switch = next(iter(cut_off.items()))
    raise ClusterInputError(
        f"{path}: {host} on {machine} is cabled to {switch}, which {coordinator} carries: without {coordinator} the "
        f"Ethernet Manager there is cut off: write `place: {{{switch}: {machine}}}`"
    )


def _remote_switch(model: LabModel, placement: Placement, host: str) -> str | None:
    """Return the switch that a host's VNICs are cabled to, if another machine carries it."""
    port = (hfi_names(host, model.hosts[host].hfis)[0], 1)
    for cable in placement.cut:
        if port in (cable.a, cable.b):
            return str((cable.b if cable.a == port else cable.a)[0])
    return None


def _packed(config: EmConfig) -> str:
    text = config.model_dump_json(exclude_unset=True)  # the receiver fills in the same defaults
    return base64.b64encode(zlib.compress(text.encode())).decode()


def _unpacked(text: str) -> EmConfig:
    try:
        plain = zlib.decompressobj().decompress(base64.b64decode(text), _MAX_CONFIG_BYTES)
        return parse_config(json.loads(plain))  # longer data is cut off, and then is not JSON
    except (ValueError, zlib.error) as error:
        raise ClusterError(f"malformed Ethernet Manager configuration: {error}") from error


class ClusterEmPeers:
    """Satisfies `opavnic.world.em_peers.EmPeers` for one machine."""

    def __init__(self, machine: Machine, nodes: Mapping[str, str], digest: str) -> None:
        """Register the handler. Args: nodes: from `em_nodes`. digest: of the lab file; machines with another
        are refused.
        """
        self.nodes = nodes
        self.config: EmConfig | None = None
        self._node = machine
        self._digest = digest
        self._number = 0
        self._from = ""
        """The machine on which it was applied."""
        self._em: EthernetService | None = None
        self._tasks: dict[NodeName, asyncio.Task[None]] = {}
        machine.verbs["em-config"] = self._heard

    @property
    def machine(self) -> str:
        """This machine."""
        return str(self._node.transport.name)

    def enter(self, em: EthernetService) -> None:
        """See EmPeers.enter."""
        self._em = em

    def applied(self, config: EmConfig) -> None:
        """See EmPeers.applied."""
        self._take(self._number + 1, self.machine, config)

    def came(self, name: NodeName) -> None:
        """Send a machine that has joined what it may have missed."""
        if self._number and str(name) in self.nodes:
            self._tell_soon(name)

    def _rank(self, number: int, machine: str) -> tuple[int, int]:
        return number, -list(self.nodes).index(machine) if machine in self.nodes else -len(self.nodes)

    def _take(self, number: int, machine: str, config: EmConfig) -> None:
        self._number, self._from, self.config = number, machine, config
        for name in list(self._node.nodes):
            if str(name) in self.nodes:
                self._tell_soon(name)

    def _tell_soon(self, name: NodeName) -> None:
        task = self._tasks.get(name)
        if task is None or task.done():
            self._tasks[name] = asyncio.get_running_loop().create_task(self._tell(name))

    async def _tell(self, name: NodeName) -> None:
        """Send a machine the newest configuration until it has it or has left."""
        told = 0, ""
        while told != (self._number, self._from) and name in self._node.nodes and self.config is not None:
            told = self._number, self._from
            body = {
                "digest": self._digest,
                "number": self._number,
                "from": self._from,
                "config": _packed(self.config),
            }
            try:
                await self._node.transport.ask(name, "em-config", body)
            except AskError as error:
                log.warning("%s did not accept the Ethernet Manager configuration: %s", name, error)
                told = 0, ""
                await asyncio.sleep(AGAIN_S)

    async def _heard(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        if str(asker) not in self.nodes:
            raise ClusterError(
                f"{asker} has no Ethernet Manager: cluster.em_standby of the lab file does not name it"
            )
        if str(body["digest"]) != self._digest:
            raise ClusterError(f"{asker} runs another lab file than {self.machine}")
        number, machine, config = int(body["number"]), str(body["from"]), _unpacked(body["config"])
        if self._rank(number, machine) > self._rank(self._number, self._from):
            self._follow(config)
            self._take(number, machine, config)
        return {}

    def _follow(self, config: EmConfig) -> None:
        if self._em is None:
            return
        if self._em.core is None:
            self._em.begin_with(config)
            return
        try:
            self._em.apply(config)
        except EmConfigError as error:
            log.error("the configuration applied on another machine is not valid here: %s", error.problems)

    async def close(self) -> None:
        """Stop sending and following configurations."""
        self._em = None
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
