"""States of labs for tests of what shows them: everything is there, and a test says what matters to it."""

from __future__ import annotations

from typing import Any

from opavnic.base.state import counters_of
from opavnic.state.lab import HostStatus, LabState, LinkStatus, VnicStatus

_ENGINE: dict[str, Any] = {
    "name": "native",
    "workers_wanted": "auto",
    "workers": [{"engine": "native", "vnics": 1, "links": 1}],
    "steered": 0,
    "missed": 0,
    "merging": {},
}


def vnic_state(**changes: Any) -> VnicStatus:
    """Return a VNIC that is up and has carried nothing."""
    plain = {
        "vesw": "blue", "vesw_id": 2, "port": "h1:1", "lid": 2, "vport_num": 1, "interface": "blue", "ip": "",
        "other_ips": [], "mac": "", "mtu": 1500, "state": "up", "reason": "", "moved_to": "", "carrier": True,
        "oper_state": 2, "merges": [],
        **dict.fromkeys(counters_of(VnicStatus), 0),
    }  # fmt: skip
    return VnicStatus.model_validate(plain | changes)


def host_state(name: str, *vnics: VnicStatus, **changes: Any) -> HostStatus:
    """Return a host with VNICs."""
    plain = {"name": name, "namespace": None, "lid": 2, "speed": 0, "vnics": vnics}
    return HostStatus.model_validate(plain | changes)


def link_state(name: str, **changes: Any) -> LinkStatus:
    """Return a link that is up and has carried nothing."""
    plain = {
        "name": name, "state": "up", "rate_bps_forth": 100e9, "rate_bps_back": 100e9, "datapath": "native",
        **dict.fromkeys(counters_of(LinkStatus), 0),
    }  # fmt: skip
    return LinkStatus.model_validate(plain | changes)


def lab_state(**changes: Any) -> LabState:
    """Return a lab without hosts. Args: engine: what differs of it, by name; all else: fields of the state."""
    plain = {
        "lab": "x", "pid": 1, "file": "x.yaml", "uptime_s": 1.0, "netdev": "tap", "datapath": "native",
        "datapath_reason": "", "failure": "", "em": "builtin", "subnet_manager": "builtin",
        "driver_quirks": False, "fabric_id": 1, "seed": 0, "mads": 0, "hosts": [], "apps": [], "links": [],
        "drops": {}, "balance": {}, "hints": [],
    }  # fmt: skip
    engine = _ENGINE | changes.pop("engine", {})
    return LabState.model_validate(plain | {"engine": engine} | changes)
