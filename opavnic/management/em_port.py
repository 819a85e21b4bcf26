"""The EM on a simulated fabric: its view of the subnet manager, the names of ports, and its creation on a port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, CapabilityMask3
from hfi_sim.management.sa.picture import SaPort
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager import SmNotice, SubnetManager
from hfi_sim.subnet_manager.groups import Announced
from hfi_sim.wire.mad.header import MAD_SIZE
from vema.em.core.virtual_switches import NO_VESW, Group, group_gid
from vema.em.desired.election import ELECTION_GROUP
from vema.em.desired.ports import PortFacts, named_port
from vema.em.service.interfaces import EmSubnet
from vema.em.service.service import EthernetService
from vema.em.store.database import IN_MEMORY, Store

if TYPE_CHECKING:
    from pathlib import Path

HostOf = Callable[[HfiPort], str]
"""Returns the name of the host that contains a port's HFI."""


def _hfi_name(port: HfiPort) -> str:
    return port.hfi.name


class FabricNames:
    """The names of the ports of a simulated fabric; a `vema.em.service.administered_subnet.PortNames`."""

    open_ended: Final = False

    def __init__(self, ports: Callable[[], Iterable[HfiPort]], host_of: HostOf = _hfi_name) -> None:
        """Args:  ports: all HFI ports that there may be."""
        self._ports = ports
        self._host_of = host_of

    def of(self, seen: Mapping[int, SaPort]) -> list[PortFacts]:
        """Return all ports that announce Ethernet, whether the fabric manager has found them or not."""
        announced = CapabilityMask3.ETH_ON_FABRIC_SUPPORTED
        return [
            named_port(int(port.guid), port.name, port.hfi.name, self._host_of(port), port.opa_port_num)
            for port in self._ports()
            if announced in port.capability_mask3
        ]


class SmTopology:
    """A subnet manager as an EM sees it; a `vema.em.service.interfaces.EmSubnet`."""

    def __init__(self, sm: SubnetManager, port: HfiPort, *, host_of: HostOf = _hfi_name) -> None:
        """View the fabric of `sm` from `port`, on which the EM runs."""
        self._sm = sm
        self._port = port
        self._host_of = host_of
        self._mlids: dict[int, int] = {}

    @property
    def lid(self) -> int:
        """LID of the port that the EM runs on."""
        return self._port.lid

    @property
    def sl(self) -> int:
        """Service level of MADs to agents."""
        return 0

    def ports(self) -> list[PortFacts]:
        """Return the ports that are in service and announce Ethernet on fabric."""
        announced = CapabilityMask3.ETH_ON_FABRIC_SUPPORTED
        return [self._facts(p) for p in self._sm.ports_in_service() if announced in p.capability_mask3]

    def known(self) -> list[PortFacts]:
        """Return all ports that announce Ethernet on fabric, cabled or not."""
        announced = CapabilityMask3.ETH_ON_FABRIC_SUPPORTED
        return [self._facts(p) for p in self._sm.fabric.hfi_ports() if announced in p.capability_mask3]

    @property
    def open_ended(self) -> bool:
        """All ports are known."""
        return False

    @property
    def given(self) -> bool:
        """Partitions are those of the lab; lanes are the EM's to choose."""
        return False

    def set_groups(self, groups: dict[int, Group | None]) -> None:
        """Give virtual switches, by id, their multicast groups, at the LIDs that the EM has chosen."""
        ports = {int(port.guid): port for port in self._sm.fabric.hfi_ports()}
        announced: dict[int, Announced] = {}
        changes: dict[int, list[HfiPort]] = {
            mlid: [] for vesw_id in groups if (mlid := self._mlids.pop(vesw_id, None)) is not None
        }
        for vesw_id, group in groups.items():
            if group is not None:
                self._mlids[vesw_id] = group.mlid
                changes[group.mlid] = [ports[guid] for guid in group.guids if guid in ports]
                announced[group.mlid] = Announced(group_gid(vesw_id, group.pkey), group.pkey, group.mtu)
        self._sm.groups.assign(changes)
        for mlid, members in changes.items():
            self._sm.groups.announce(mlid, announced.get(mlid) if members else None)

    def group_lids(self) -> None:
        """Leave the LIDs to the EM."""

    def group_members(self, mlid: int) -> frozenset[int]:
        """Return the GUIDs of the ports in a group."""
        return frozenset(int(guid) for guid in self._sm.groups.members(mlid))

    def why_not_in_group(self, vesw_id: int, guid: int) -> str:
        """Say nothing: on this fabric ports are put into groups, and need not ask."""
        return ""

    def join_election(self) -> None:
        """Let this port receive the heartbeats of other EMs."""
        groups, pkey = self._sm.groups, PKEY_FULL_MANAGEMENT
        groups.join(ELECTION_GROUP, self._port)
        groups.announce(ELECTION_GROUP, Announced(group_gid(NO_VESW, pkey), pkey, MAD_SIZE))

    def election_lids(self, heard: Iterable[int]) -> frozenset[int]:
        """Return the group of all EMs, which reaches all of them."""
        return frozenset({ELECTION_GROUP})

    def subscribe(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` when ports come, go or change."""

        def notice(_: SmNotice) -> None:
            handler()

        return self._sm.subscribe(notice)

    def _facts(self, port: HfiPort) -> PortFacts:
        return PortFacts(
            guid=int(port.guid),
            lid=int(port.lid),
            name=port.name,
            hfi=port.hfi.name,
            host=self._host_of(port),
            opa_port_num=port.opa_port_num,
            pkeys=frozenset(int(pkey) for pkey in port.pkeys.entries),
        )


def make_em(
    topology: EmSubnet,
    port: HfiPort,
    *,
    clock: Clock,
    wall_clock: Callable[[], float],
    database: Path | str = IN_MEMORY,
    hear_traps: bool = True,
) -> EthernetService:
    """Return an EM for `port`, which must be a full member of the management partition. It is not started.

    Args:    topology: the fabric as seen from `port`. wall_clock: seconds since 1970, for events and counters.
             database: a file, or `:memory:`. hear_traps: False if the caller registers for traps and passes them on.
    Raises:  StoreError: the database cannot be opened.
    """
    return EthernetService(
        port.mad,
        topology,
        Store(database, wall_clock=wall_clock),
        clock=clock,
        guid=int(port.guid),
        hear_traps=hear_traps,
        name=f"{port.name} Ethernet Manager",
    )
