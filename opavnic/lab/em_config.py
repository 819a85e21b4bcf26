"""The configuration of the Ethernet Manager that a lab file describes."""

from __future__ import annotations

from opavnic.lab.model import LabModel
from vema.em.desired import EmConfig, parse_config

COUNTERS_S = 10.0
"""Interval between two readings of the counters of a VNIC."""


def em_config(model: LabModel) -> EmConfig:
    """Return the manager's configuration for a lab file; the n-th virtual switch of a host is its vport n."""
    vesws = [
        {
            "id": vesw.id,
            "name": vesw.name,
            "pkey": vesw.pkey,
            "mtu": vesw.mtu,
            "members": list(vesw.members),
        }
        for vesw in model.vesws
    ]
    return parse_config(
        {
            "fabric": {"id": model.fabric.id},
            "mac": model.em.mac,
            "polling": {"counters": COUNTERS_S},
            "vesws": vesws,
        }
    )
