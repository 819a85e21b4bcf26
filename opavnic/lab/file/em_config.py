"""The configuration of the Ethernet Manager that a lab file describes."""

from __future__ import annotations

from typing import Any, Final

from opavnic.lab.file.lab_sections import Vesw
from opavnic.lab.file.members import is_guid
from opavnic.lab.file.model import LabModel
from vema.attributes.vesw_port_info import DEF_PORTS
from vema.em.desired.desired import EmConfig, VeswSection, parse_config

COUNTERS_S: Final = 10.0
"""Interval between two readings of the counters of a VNIC."""
_READINGS: Final = 25.0
"""VNICs whose counters are read in a second, at most: in a large lab the interval is longer."""


def _led_out(model: LabModel, vesw: Vesw) -> dict[str, Any]:
    """Return the settings of a virtual switch that leads to a bridge: MAC tables, and default ports.

    Settings that the lab file gives itself are left out.
    """
    bridged = [uplink for uplink in model.uplinks_of(vesw.name).values() if uplink.is_bridged]
    learns = [uplink for uplink in bridged if uplink.mac == "learn"]
    hosts = [port.host for port in model.members_of(vesw)]
    machines = [name for name in hosts if model.hosts[name].tap is not None]
    if not learns and not machines:
        return {}
    flooded = [vesw.members[hosts.index(uplink.host)] for uplink in learns if uplink.flood]
    led = {"mac": "learn", "default_ports": flooded[:DEF_PORTS]}
    return {key: value for key, value in led.items() if key not in vesw.model_fields_set}


def _named(model: LabModel, vesw: Vesw) -> dict[str, Any]:
    """Return the members with names in place of GUIDs, which a file may write in more forms than the manager knows."""
    if not any(map(is_guid, vesw.members)):
        return {}
    names = dict(zip(vesw.members, (port.member for port in model.members_of(vesw)), strict=True))
    return {
        "members": list(names.values()),
        "default_ports": [names[port] for port in vesw.default_ports],
        "vports": {names.get(member, member): number for member, number in vesw.vports.items()},
    }


def em_config(model: LabModel) -> EmConfig:
    """Return the manager's configuration for a lab file."""
    vesws = [
        {
            **vesw.model_dump(include=set(VeswSection.model_fields)),
            **_led_out(model, vesw),
            **_named(model, vesw),
        }
        for vesw in model.vesws
    ]
    return parse_config(
        {
            "fabric": {"id": model.fabric.id},
            "mac": model.em.mac,
            "polling": {
                "counters": max(COUNTERS_S, sum(len(vesw.members) for vesw in model.vesws) / _READINGS)
            },
            "vesws": vesws,
        }
    )
