"""What a lab file asks of the Ethernet Manager."""

from __future__ import annotations

from opavnic.lab.model import LabModel
from vema.em.desired import EmConfig, parse_config

COUNTERS_S = 10.0
"""Between two readings of the counters of a VNIC, in seconds."""


def em_config(model: LabModel) -> EmConfig:
    """Return what a lab file asks of the manager; the n-th virtual switch of a host is its vport n."""
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
