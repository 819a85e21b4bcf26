"""`opavnic ethtool`: what ethtool says of a VNIC of the real driver; the kernel's own shows those of a TAP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hfi_sim.base.text import unknown_name
from opavnic.cli.base.common import AsJson, LabOption, lab_client
from opavnic.cli.base.output import EXIT_USAGE, fail, print_json, print_table

if TYPE_CHECKING:
    from opavnic.state.lab import HostStatus, LabState, VnicStatus

DRIVER: Final = "opa_vnic"


def ethtool(
    host: Annotated[str, typer.Argument(help="A host of the lab.")],
    vnic: Annotated[
        str | None,
        typer.Argument(help="The interface of one of its VNICs; may be left out if it has only one."),
    ] = None,
    statistics: Annotated[
        bool, typer.Option("--statistics", "-S", help="Show the counters, under the names of the driver.")
    ] = False,
    driver: Annotated[bool, typer.Option("--driver", "-i", help="Show the driver.")] = False,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a VNIC as ethtool shows one of the real driver: speed and link, driver, or statistics.

    On a host, ethtool itself shows the same speed and link; driver and statistics there are those of a TAP.

    \b
    Example:
      opavnic ethtool h1 blue
      opavnic ethtool h1 blue -S
    """
    from opavnic.state.lab import LabState

    state = lab_client(lab).read(LabState, "/status?counters=1" if statistics else "/status")
    hosts = {row.name: row for row in state.hosts}
    if host not in hosts:
        fail(unknown_name("host", host, hosts), EXIT_USAGE)
    vnics = {row.interface: row for row in hosts[host].vnics}
    if vnic is None and len(vnics) == 1:
        vnic = next(iter(vnics))
    if vnic is None:
        fail(f"host {host} has {len(vnics)} VNICs: name one of {', '.join(vnics)}", EXIT_USAGE)
    if vnic not in vnics:
        fail(unknown_name(f"VNIC of host {host}", vnic, vnics), EXIT_USAGE)
    told = _told(state, hosts[host], vnics[vnic], statistics, driver)
    if not told:
        fail(f"host {host} has Linux's own driver: opavnic exec {host} -- ethtool -S {vnic}")
    if as_json:
        print_json(told)
        return
    print_table((vnic, "value"), list(told.items()))


def _told(
    state: LabState, host: HostStatus, vnic: VnicStatus, statistics: bool, driver: bool
) -> Mapping[str, object]:
    if statistics:
        return state.ethtool_of(host, vnic)
    if driver:
        return {"driver": DRIVER, "bus-info": f"{vnic.port} vport {vnic.vport_num}", "lab": state.lab}
    speed = f"{host.speed}Mb/s" if host.speed else "Unknown!"
    return {"Speed": speed, "Duplex": "Full", "Link detected": "yes" if vnic.carrier else "no"}
