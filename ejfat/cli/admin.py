"""`opavnic ejfat admin`: operator requests to a control plane, this project's or the public one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ejfat.base.addresses import parse_ip, parse_ips
from ejfat.base.errors import BadRequestError
from opavnic.cli.base.common import AsJson, time_option
from opavnic.cli.base.group import command_group
from opavnic.cli.base.output import print_json, print_line, print_rich, print_table

if TYPE_CHECKING:
    from google.protobuf.message import Message

app = command_group("Manage the reservations of a control plane.")

_CENTURY_H = 876_000
Uri = Annotated[str, typer.Option("--uri", envvar="EJFAT_URI", help="ejfat[s]://TOKEN@HOST:PORT/lb/ID")]
Control = Annotated[str, typer.Option("--control", help="gRPC address, instead of the URI's: unix:PATH.")]
Ca = Annotated[Path | None, typer.Option("--ca", help="Certificates (PEM) to trust, for ejfats://.")]
Addresses = Annotated[list[str], typer.Argument(help="IP addresses.", show_default=False)]


@app.command(epilog="Example: opavnic ejfat admin reserve run1 --senders 10.7.0.2 --hours 8")
def reserve(
    name: Annotated[str, typer.Argument(help="Name of the reservation.", show_default=False)],
    senders: Annotated[str, typer.Option(help="Addresses allowed to send: IP,IP,...")] = "",
    hours: Annotated[float, typer.Option(min=0, max=_CENTURY_H, help="Hours until it ends; 0: never.")] = 0.0,
    strategy: Annotated[
        str,
        typer.Option(
            help="dynamic: by weight and reports; static: requested slots first; explicit: only requested slots."
        ),
    ] = "dynamic",
    uri: Uri = "",
    control: Control = "",
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Reserve a load balancer and print the URI that its senders and workers need."""
    from dataclasses import replace
    from ipaddress import ip_address

    from ejfat.events.uri import EjfatUri, Endpoint
    from ejfat.wire.headers import LB_PORT

    asked = parse_uri(uri)
    values: dict[str, Any] = {"name": name, "senderAddresses": map(str, parse_ips(senders))}
    if hours:
        values["until"] = {"seconds": int(time.time() + hours * 3600)}
    reply = _ask(asked, control, ca, "ReserveLoadBalancer", strategy=strategy, **values)
    data = [text for text in (reply.dataIpv4Address, reply.dataIpv6Address) if text]
    sync = [text for text in (reply.syncIpv6Address, reply.syncIpv4Address) if text]
    found: EjfatUri = replace(
        asked,
        token=reply.token,
        lb_id=reply.lbId,
        sync=tuple(Endpoint(ip_address(text), reply.syncUdpPort) for text in sync),
        data=tuple(Endpoint(ip_address(text), LB_PORT) for text in data),
    )
    if as_json:
        print_json({"uri": str(found), **_plain(reply)})
    else:
        print_line(str(found))


@app.command(epilog="Example: opavnic ejfat admin free")
def free(uri: Uri = "", control: Control = "", ca: Ca = None) -> None:
    """End the reservation of the URI."""
    parsed = parse_uri(uri)
    _ask(parsed, control, ca, "FreeLoadBalancer", lbId=reserved(parsed))


@app.command(epilog="Example: opavnic ejfat admin status --json")
def status(uri: Uri = "", control: Control = "", ca: Ca = None, as_json: AsJson = False) -> None:
    """Show the workers of the URI's reservation: slots, queues, counters."""
    parsed = parse_uri(uri)
    lb_id = reserved(parsed)
    from ejfat.live.issues import troubles

    reply = _ask(parsed, control, ca, "LoadBalancerStatus", lbId=lb_id)
    if as_json:
        print_json(_plain(reply))
        return
    tick, senders = reply.currentPredictedEventNumber, ", ".join(reply.senderAddresses)
    print_rich(f"epoch {reply.currentEpoch}, tick {tick}, senders {senders}")
    columns = ("worker", "address", "slots", "queue", "control", "events", "lost", "overflowed", "packets")
    rows = [
        (
            w.name,
            f"{w.ipAddress}:{w.udpPort}",
            f"{w.slotsAssigned}/{reply.slotResolution}",
            f"{w.fillPercent:.0%}",
            f"{w.controlSignal:g}",
            w.totalEventsReassembled,
            w.totalEventsReassemblyErr,
            w.totalEventEnqueueErr,
            w.totalPacketsRecv,
        )
        for w in reply.workers
    ]
    print_table(columns, rows)
    for trouble in troubles(reply):
        print_line(str(trouble))


@app.command(epilog="Example: opavnic ejfat admin overview --json")
def overview(uri: Uri = "", control: Control = "", ca: Ca = None, as_json: AsJson = False) -> None:
    """List the reservations that the URI's token may see."""
    from ejfat.live.issues import troubles

    reply = _ask(parse_uri(uri), control, ca, "Overview")
    if as_json:
        print_json(_plain(reply))
        return
    rows = [
        (row.reservation.lbId, row.name, row.reservation.dataIpv4Address or row.reservation.dataIpv6Address,
         len(row.status.workers), row.status.currentEpoch, len(troubles(row.status)))
        for row in reply.loadBalancers
    ]  # fmt: skip
    print_table(("id", "name", "data address", "workers", "epoch", "issues"), rows)
    for row in reply.loadBalancers:
        for trouble in troubles(row.status):
            print_line(f"{row.name}: {trouble}")


@app.command(epilog="Example: opavnic ejfat admin timeseries '/lb/1/*' --since 30s --json")
def timeseries(
    series: Annotated[
        list[str], typer.Argument(help="Paths: /lb/ID/METRIC, /lb/ID/session/ID/METRIC, with * for all.")
    ],
    since: Annotated[Any, time_option(low="0s", high="24h", help="How far to look back: 30s, 5m.")] = "1m",
    uri: Uri = "",
    control: Control = "",
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Show the recent counters and reports of reservations and workers."""
    seconds, millis = divmod(round((time.time() - since) * 1000), 1000)
    start = {"seconds": seconds, "nanos": millis * 10**6}
    reply = _ask(parse_uri(uri), control, ca, "Timeseries", seriesSelector=series, since=start)
    if as_json:
        print_json(_plain(reply))
        return
    rows = []
    for one in reply.timeseries:
        values = [sample.value for sample in one.float_samples.data]
        figures = (values[0], values[-1], min(values), max(values)) if values else ("", "", "", "")
        rows.append((one.name, len(values), *figures))
    print_table(("series", "samples", "first", "last", "least", "most"), rows)


@app.command("add-senders", epilog="Example: opavnic ejfat admin add-senders 10.7.0.9")
def add_senders(addresses: Addresses, uri: Uri = "", control: Control = "", ca: Ca = None) -> None:
    """Allow more addresses to send."""
    parsed = parse_uri(uri)
    _ask(parsed, control, ca, "AddSenders", lbId=reserved(parsed), senderAddresses=_texts(addresses))


@app.command("remove-senders", epilog="Example: opavnic ejfat admin remove-senders 10.7.0.9")
def remove_senders(addresses: Addresses, uri: Uri = "", control: Control = "", ca: Ca = None) -> None:
    """Stop addresses from sending."""
    parsed = parse_uri(uri)
    _ask(parsed, control, ca, "RemoveSenders", lbId=reserved(parsed), senderAddresses=_texts(addresses))


def _texts(addresses: list[str]) -> list[str]:
    return [str(parse_ip(text)) for text in addresses]


def parse_uri(uri: str) -> Any:
    """Read a URI that must be given. Raises: BadRequestError: it is not, or it is none."""
    from ejfat.events.uri import EjfatUri

    if not uri:
        raise BadRequestError("no URI: give --uri, or set EJFAT_URI")
    return EjfatUri.parse(uri)


def reserved(uri: Any) -> str:
    """Return the reservation of a URI. Raises: BadRequestError: it has none."""
    if not uri.lb_id:
        raise BadRequestError(f"'{uri}' has no reservation (/lb/ID)")
    return str(uri.lb_id)


def _ask(uri: Any, control: str, ca: Path | None, rpc: str, **values: Any) -> Any:
    """Return the reply to a request with these values."""
    from ejfat.control.pb import loadbalancer_pb2 as pb
    from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
    from ejfat.live.feedback import call, channel_to, check_version

    async def ask() -> Any:
        async with channel_to(uri, control, ca) as channel:
            stub = pb_grpc.LoadBalancerStub(channel)
            await check_version(stub, uri.token)
            return await call(getattr(stub, rpc), getattr(pb, f"{rpc}Request")(**values), uri.token)

    return asyncio.run(ask())


def _plain(message: Message) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(message, always_print_fields_with_no_presence=True)
