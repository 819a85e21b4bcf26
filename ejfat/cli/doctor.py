"""`opavnic ejfat doctor`: an end-to-end check of a reservation from this host."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ejfat.base.addresses import parse_ip
from ejfat.cli.admin import Ca, Control, Uri, parse_uri, reserved
from opavnic.cli.base.common import AsJson, time_option
from opavnic.cli.base.output import EXIT_FAILED, print_json, print_line

if TYPE_CHECKING:
    from ejfat.live.doctor import Finding


def doctor(
    address: Annotated[
        str,
        typer.Option(help="Address of this host, one of the senders.", show_default=False),
    ],
    uri: Uri = "",
    port: Annotated[int, typer.Option(min=1, max=65535, help="First UDP port to receive on.")] = 10000,
    port_bits: Annotated[int, typer.Option(min=0, max=14, help="Receive on 2**N ports.")] = 2,
    events: Annotated[int, typer.Option(min=1, max=100_000, help="Events to send.")] = 200,
    version: Annotated[int, typer.Option(min=2, max=3, help="Version of the load balancer header.")] = 2,
    control: Control = "",
    ca: Ca = None,
    patience: Annotated[
        Any, time_option(low="1s", high="1h", help="How long to wait for slots and events.")
    ] = "30s",
    as_json: AsJson = False,
) -> None:
    """Register on this host, send events to itself through the load balancer, and report what does not work.

    The reservation must have no other worker: events would go there.
    """
    from ejfat.live.doctor import DoctorPlan, examine

    parsed = parse_uri(uri)
    reserved(parsed)
    plan = DoctorPlan(
        uri=parsed,
        address=parse_ip(address),
        port=port,
        port_bits=port_bits,
        events=events,
        version=version,
        control=control,
        ca=ca,
        patience_s=patience,
    )

    def show(finding: Finding) -> None:
        if not as_json:
            print_line(f"{'ok  ' if finding.ok else 'FAIL'} {finding.check}: {finding.text}")

    found = asyncio.run(examine(plan, show))
    ok = all(finding.ok for finding in found)
    if as_json:
        print_json({"ok": ok, "checks": [asdict(finding) for finding in found]})
    if not ok:
        raise typer.Exit(EXIT_FAILED)
