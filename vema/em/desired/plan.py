"""From desired state to attributes: the VeswPortInfo and the ClassPortInfo that an agent should have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from hfi_sim.base.types import MacAddr
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.vesw_port_info import PCP_VALUES, RcShift, VeswPortInfo
from vema.base.lmac import Lmac
from vema.base.types import ConfigState
from vema.em.desired.desired import EmConfig, Lane, Qos, RoutingControl, TrafficClass, VeswSection
from vema.em.desired.ports import PortFacts, Roster
from vema.em.desired.ranges import ALL

_SL_SHIFT: Final = 3
_SL_KEPT: Final = 0x07
READ_ONLY: Final = frozenset(
    {
        "eth_link_status", "oper_state", "max_mac_tbl_ent", "max_smac_ent", "mac_tbl_digest",
        "uc_macs_gen_count", "mc_macs_gen_count",
    }
)  # fmt: skip
"""Fields of VeswPortInfo that a Set does not change."""
_DECIMAL: Final = frozenset({"eth_mtu", "vesw_id"})
"""Fields shown in decimal; the others are shown in hex."""


@dataclass(frozen=True, slots=True)
class VeswPlan:
    """One virtual switch on the current fabric."""

    fabric_id: int
    section: VeswSection
    learns: bool
    members: tuple[PortFacts, ...]
    """In the order of the configuration."""
    default_lids: tuple[int, ...]
    """LIDs of the default ports that are on the fabric."""
    mlid: int
    """LID of its multicast group; 0: the subnet manager has not given one yet."""
    vports: Mapping[int, int] = field(default_factory=dict)
    """The numbers of vports that the configuration gives, by the GUID of the port."""

    @property
    def vesw_id(self) -> int:
        """Its id."""
        return self.section.id

    @property
    def wanted(self) -> tuple[int, VeswSection, bool, int]:
        """What it was made from, besides the ports."""
        return self.fabric_id, self.section, self.learns, self.mlid


def plan_vesws(
    config: EmConfig,
    roster: Roster,
    group_lids: Mapping[int, int] | None = None,
    *,
    before: Mapping[int, VeswPlan] | None = None,
    moved: Collection[str] = (),
) -> dict[int, VeswPlan]:
    """Return the virtual switches of a configuration by id, with the ports that exist.

    Args:  group_lids: the multicast LIDs that the subnet manager has given; None: those of the configuration.
           before: earlier plans; a plan from which nothing differs is the same object. moved: the names whose ports
           may have changed since then.
    """
    plans = {}
    for section in config.vesws:
        mlid = section.mlid if group_lids is None else group_lids.get(section.id, 0)
        wanted = (config.fabric.id, section, config.policy(section) == "learn", mlid)
        plan = None if before is None else before.get(section.id)
        if plan is None or plan.wanted != wanted or (moved and _names_any(section, moved)):
            made = _plan(roster, *wanted)
            plan = plan if plan == made else made
        plans[section.id] = plan
    return plans


def _plan(roster: Roster, fabric_id: int, section: VeswSection, learns: bool, mlid: int) -> VeswPlan:
    found = (roster.find(name) for name in section.default_ports)
    lids = tuple(port.lid for port in found if port is not None)
    vports = {
        port.guid: num for name, num in section.vports.items() if (port := roster.find(name)) is not None
    }
    return VeswPlan(fabric_id, section, learns, tuple(roster.members(section)), lids, mlid, vports)


def _names_any(section: VeswSection, names: Collection[str]) -> bool:
    """Return whether one of these names means a member or a default port."""
    return section.members == ALL or any(
        name in names for name in (*section.members, *section.default_ports, *section.vports)
    )


def routing_word(rc: RoutingControl) -> int:
    """Return the `rc` word of VeswPortInfo."""
    return (
        rc.default << RcShift.DEFAULT
        | rc.ipv4 << RcShift.IPV4
        | rc.ipv4_udp << RcShift.IPV4_UDP
        | rc.ipv4_tcp << RcShift.IPV4_TCP
        | rc.ipv6 << RcShift.IPV6
        | rc.ipv6_udp << RcShift.IPV6_UDP
        | rc.ipv6_tcp << RcShift.IPV6_TCP
    )


def base_mac(fabric_id: int, vesw_id: int, lid: int) -> MacAddr:
    """Return the address that the EM assigns to the vport of a port: locally administered, with its LID."""
    return Lmac(fabric_id, vesw_id, lid).build()


def qos_of(section: VeswSection, port: PortFacts) -> Qos:
    """Return the service channels and lanes of a vport: those of the file, or if it says none, of its partition."""
    lane = port.lane_of(section.pkey)
    if lane is None or section.qos != Qos():
        return section.qos
    same = TrafficClass(
        untagged=Lane(sc=lane.sc, vl=lane.vl),
        pcp_to_sc=(lane.sc,) * PCP_VALUES,
        pcp_to_vl=(lane.vl,) * PCP_VALUES,
    )
    return Qos(unicast=same, multicast=same)


def port_info(plan: VeswPlan, port: PortFacts, seen: VeswPortInfo) -> VeswPortInfo:
    """Return the desired VeswPortInfo of a vport: `seen`, its current one, with the fields of the EM replaced."""
    section = plan.section
    lids = tuple(lid for lid in plan.default_lids if lid != port.lid)
    qos = qos_of(section, port)
    unicast, multicast = qos.unicast, qos.multicast
    forwards = section.link == "up" and plan.mlid
    return replace(
        seen,
        fabric_id=plan.fabric_id,
        vesw_id=section.id,
        def_port_mask=(1 << len(lids)) - 1,
        pkey=section.pkey,
        u_mcast_dlid=plan.mlid,
        u_ucast_dlid=(*lids, *(0,) * (len(seen.u_ucast_dlid) - len(lids))),
        rc=routing_word(section.rc),
        eth_mtu=section.mtu,
        vesw_port_num=port.lid,
        base_mac=base_mac(plan.fabric_id, section.id, port.lid),
        config_state=ConfigState.FORWARDING if forwards else ConfigState.DROP_ALL,
        encap_slid=port.lid,
        pcp_to_sc_uc=bytes(unicast.pcp_to_sc),
        pcp_to_vl_uc=bytes(unicast.pcp_to_vl),
        pcp_to_sc_mc=bytes(multicast.pcp_to_sc),
        pcp_to_vl_mc=bytes(multicast.pcp_to_vl),
        non_vlan_sc_uc=unicast.untagged.sc,
        non_vlan_vl_uc=unicast.untagged.vl,
        non_vlan_sc_mc=multicast.untagged.sc,
        non_vlan_vl_mc=multicast.untagged.vl,
    )


def class_port_info(config: EmConfig, sink_lid: int, seen: ClassPortInfo) -> ClassPortInfo:
    """Return the desired ClassPortInfo of a port: `seen`, its current one, with the trap sink replaced."""
    sl = config.trap.sl << _SL_SHIFT | seen.trap_sl_rsvd & _SL_KEPT
    return replace(seen, trap_lid=sink_lid, trap_sl_rsvd=sl)


def is_power_on(info: VeswPortInfo) -> bool:
    """Return whether a vport has no configuration: it is new, deleted, or does not exist."""
    clean = replace(VeswPortInfo.power_on(), **{name: getattr(info, name) for name in READ_ONLY})
    return info == clean


def differences(wanted: Any, seen: Any) -> list[str]:
    """Return `field: seen -> wanted` for each differing field of two attributes that an EM can set."""
    lines = []
    for item in fields(wanted):
        old, new = getattr(seen, item.name), getattr(wanted, item.name)
        if old != new and item.name not in READ_ONLY:
            shown = str if item.name in _DECIMAL else _text
            lines.append(f"{item.name}: {shown(old)} -> {shown(new)}")
    return lines


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex(":") if len(value) == 6 else value.hex()
    if isinstance(value, tuple):
        return "[" + ", ".join(f"{item:#x}" for item in value if item) + "]"
    return f"{value:#x}" if isinstance(value, int) and value > 9 else str(value)
