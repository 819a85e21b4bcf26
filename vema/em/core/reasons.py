"""Why a member of a virtual switch is not what the EM wants it to be, as the EM knows it: nothing is asked. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping

from vema.em.core.core import EmCore
from vema.em.core.state import ManagedVesw, Port
from vema.em.desired.ports import port_contradictions


def why_not(core: EmCore, guid: int, vesw_id: int, group: str, given: bool) -> str:
    """Return in a few words why a port has no VNIC that forwards on a virtual switch; empty if nothing is known.

    Args:  group: why it is not in the multicast group; empty if it is. given: a fabric manager gives partitions.
    """
    if not core.active:
        return "this Ethernet Manager is a standby"
    vesw, port = core.vesws.get(vesw_id), core.ports.get(guid)
    if vesw is None:
        return f"no virtual switch {vesw_id} in the configuration of the EM"
    if port is None or not port.in_service:
        return _why_absent(port, given)
    if guid not in vesw.guids:
        return f"{port.facts.name} is not a member of {vesw.plan.section.name} in the configuration of the EM"
    if vesw.plan.section.link == "down":
        return "link is down in the configuration of the EM"
    return (
        _why_not_served(vesw, port) or group or ("" if vesw.plan.mlid else "its multicast group has no LID")
    )


def _why_absent(port: Port | None, given: bool) -> str:
    if port is not None:
        return f"{port.facts.name} is not in service"
    return "the fabric manager has not brought its port up" if given else "its port is not in service"


def _why_not_served(vesw: ManagedVesw, port: Port) -> str:
    if wrong := port_contradictions(vesw.plan.section, port.facts):
        return "; ".join(wrong)
    if port.isolated:
        return f"its agent is isolated: {port.isolated}"
    return "its agent does not answer" if port.failures else ""


def given_pkeys_missing(core: EmCore, given: frozenset[int] | None) -> Mapping[int, list[str]]:
    """Return the P_Keys that no virtual fabric of the fabric manager has, each with its virtual switches.

    Args:  given: the P_Keys of its virtual fabrics, as of full members; None: not known yet.
    """
    missing: dict[int, list[str]] = {}
    if given is None:
        return missing
    for section in core.config.vesws:
        if section.pkey not in given:
            missing.setdefault(section.pkey, []).append(section.name)
    return missing
