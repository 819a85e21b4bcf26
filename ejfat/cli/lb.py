"""`opavnic ejfat lb`: the stand-alone load balancer, on an existing interface or its own TAP."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ejfat.base.addresses import IpAddress, parse_ips
from ejfat.base.errors import BadRequestError, EjfatError
from opavnic.base.signals import call_on_ending_signals
from opavnic.cli.base.common import time_option
from opavnic.cli.base.output import say

if TYPE_CHECKING:
    from ejfat.base.drops import PipelineCounters
    from ejfat.live.app_config import AppConfig
    from ejfat.live.ports import EthernetPort
    from ejfat.pipeline import Pipeline

TAP_MAC = "02:4c:42:00:00:01"


def lb(
    interface: Annotated[str, typer.Option(help="Existing interface to use (AF_PACKET).")] = "",
    tap: Annotated[str, typer.Option(help="Create and use a TAP with this name.")] = "",
    mac: Annotated[
        str, typer.Option(help="MAC address of the load balancer; default: that of --interface.")
    ] = "",
    ipv4: Annotated[
        list[str] | None,
        typer.Option(help="IPv4 address of the load balancer; repeat for further instances."),
    ] = None,
    ipv6: Annotated[
        list[str] | None,
        typer.Option(help="IPv6 address of the load balancer; repeat for further instances."),
    ] = None,
    listen: Annotated[
        str, typer.Option(help="gRPC address of the control plane: HOST:PORT or unix:PATH.")
    ] = "127.0.0.1:18008",
    token: Annotated[
        str, typer.Option(envvar="EJFAT_ADMIN_TOKEN", help="The operator's token; generated if missing.")
    ] = "",
    token_file: Annotated[
        str, typer.Option(help="File with the operator's token, which `ps` would show of --token.")
    ] = "",
    state: Annotated[str, typer.Option(help="SQLite file that keeps the state across restarts.")] = "",
    reserve: Annotated[
        str, typer.Option(help="Make a reservation with this name at start and print its URI.")
    ] = "",
    senders: Annotated[str, typer.Option(help="Senders of the --reserve reservation: IP,IP,...")] = "",
    tls_cert: Annotated[str, typer.Option(help="Certificate (PEM).")] = "",
    tls_key: Annotated[str, typer.Option(help="Its key (PEM).")] = "",
    p4_listen: Annotated[str, typer.Option(help="gRPC address for an external control plane.")] = "",
    p4_token: Annotated[
        str, typer.Option(envvar="EJFAT_P4_TOKEN", help="Token that the external control plane must send.")
    ] = "",
    p4_token_file: Annotated[str, typer.Option(help="File with the token of --p4-token.")] = "",
    p4_open: Annotated[
        bool,
        typer.Option("--p4-open", help="Require no token: anyone who can connect may program the tables."),
    ] = False,
    gateway: Annotated[
        list[str] | None,
        typer.Option(help="Router to workers off the link, one for each IP version; default: the kernel's."),
    ] = None,
    v1: Annotated[
        bool, typer.Option("--v1/--no-v1", help="Whether to serve senders of header version 1, too.")
    ] = True,
    period: Annotated[
        Any, time_option(low="50ms", high="1h", help="Time between evaluations of the workers: 200ms, 1s.")
    ] = "1s",
    lead: Annotated[
        Any,
        time_option(low="1ms", high="1m", help="Time from a decision to the tick at which it takes effect."),
    ] = "800ms",
    fill_gain: Annotated[
        float, typer.Option(min=0.0, help="Weight per second that a full worker loses to empty ones.")
    ] = 0.0,
    workers: Annotated[
        int,
        typer.Option(min=1, max=64, help="Threads on --interface; the kernel shares flows out among them."),
    ] = 1,
    tables: Annotated[
        Path | None,
        typer.Option(help="Table script in the place of a control plane; followed while it is changed."),
    ] = None,
    pipeline: Annotated[
        Literal["auto", "python", "native"],
        typer.Option(help="auto: native in its own thread, if built."),
    ] = "auto",
) -> None:
    """Run a load balancer on an interface until Ctrl-C (or SIGTERM, SIGHUP), data plane and control plane."""
    given = locals()  # the options, by the names that they have in the model
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # opavnic reports gRPC errors itself
    from ejfat.control.grpc.listening import check_listen
    from ejfat.control.members import check_name
    from ejfat.live.lb_options import BalancerOptions
    from ejfat.live.ports import PacketPort, TapPort, interface_mac
    from hfi_sim.base.types import parse_mac

    if bool(interface) == bool(tap):
        raise BadRequestError("give either --interface or --tap")
    if tables is not None:
        for name in ("ipv4", "ipv6", "reserve", "state", "p4_listen"):
            if given[name]:
                option = f"--{name.replace('_', '-')}"
                raise BadRequestError(
                    f"--tables {tables}: there is no control plane, so {option} has no meaning"
                )
        asyncio.run(
            _serve_tables(
                tables,
                pipeline,
                workers,
                lambda: PacketPort(interface, (), workers) if interface else TapPort(tap),
            )
        )
        return
    if not ipv4 and not ipv6:
        raise BadRequestError("give --ipv4 or --ipv6, or both")
    if senders and not reserve:
        raise BadRequestError("--senders requires --reserve NAME, the reservation made at start")
    if workers > 1 and tap:
        raise BadRequestError(f"--workers {workers} needs --interface: a TAP has one thread")
    if not math.isfinite(fill_gain):
        raise BadRequestError(f"--fill-gain {fill_gain}: expected a number from 0, such as 0.5")
    if reserve:
        check_name("reservation", reserve)
    for option, address in (("--listen", listen), ("--p4-listen", p4_listen or listen)):
        try:
            check_listen(address)
        except BadRequestError as error:
            raise BadRequestError(f"{option} {error}") from None
    try:
        # the kernel's end of the TAP has a MAC of its own, so the load balancer needs a different one
        number = int.from_bytes(parse_mac(mac or (interface_mac(interface) if interface else TAP_MAC)), "big")
    except ValueError as error:
        raise BadRequestError(str(error)) from None
    chosen = {name: given[name] for name in BalancerOptions.model_fields if given[name] is not None}
    wanted = parse_ips(senders)
    options = BalancerOptions(**chosen | {"senders": [str(one) for one in wanted]})
    plane = options.plane(number)
    config = options.config(
        plane, interface=interface or tap, token=token, p4_token=p4_token, workers=workers
    )
    # a foreign control plane may give the load balancer other addresses
    own = [] if p4_listen else [one for instance in plane.instances for one in instance.all]
    asyncio.run(
        _serve(
            config,
            lambda: PacketPort(interface, own, workers) if interface else TapPort(tap),
            reserve,
            wanted,
        )
    )


class _LbEnd:
    """What ends the program: a signal, or the loss of its interface."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._losses: list[str] = []
        call_on_ending_signals(self.event.set)

    def lose(self, reason: str) -> None:
        """End the program, as its interface is lost."""
        self._losses.append(reason)
        self.event.set()

    def check(self) -> None:
        """Raise EjfatError if the interface was lost."""
        if self._losses:
            raise EjfatError(f"the interface is lost: {self._losses[0]}")


async def _serve_tables(
    path: Path,
    wanted: Literal["auto", "python", "native"],
    workers: int,
    make_port: Callable[[], EthernetPort],
) -> None:
    from ejfat.live.tables_file import serve_tables
    from ejfat.pipeline.native import make_pipeline

    pipeline = make_pipeline(wanted, workers=workers)
    end = _LbEnd()
    port = make_port()
    try:
        _say_pipeline(pipeline)
        lost = await serve_tables(path, pipeline, port, end.event, end.lose, lambda: say("ready"))
    finally:
        port.close()
    _say_totals(pipeline.counters, lost, port.missed)
    end.check()


def _say_pipeline(pipeline: Pipeline) -> None:
    say(f"pipeline: {pipeline.backend}{f' ({pipeline.reason})' if pipeline.reason else ''}")


def _say_totals(counters: PipelineCounters, lost: int, missed: int) -> None:
    say(
        f"{counters.rx_packets} frames in, {counters.tx_packets} forwarded, {counters.dropped} dropped, "
        f"{lost} not accepted by the interface, {missed} missed"
    )
    for reason, count in sorted(counters.drops.items()):
        members = sorted((number, one.drops.get(reason, 0)) for number, one in counters.members.items())
        of_members = ", ".join(f"member {number}: {dropped}" for number, dropped in members if dropped)
        say(f"dropped at {reason}: {count}{f' ({of_members})' if of_members else ''}")


async def _serve(
    config: AppConfig,
    make_port: Callable[[], EthernetPort],
    reserve: str,
    senders: list[IpAddress],
) -> None:
    from ejfat.live.app import LbApp
    from ejfat.live.carrier import NativeCarrier
    from ejfat.pipeline.native import NativePipeline

    app = LbApp(config, lambda frame: port.send(frame))  # refuses a bad configuration before a TAP is created
    port = make_port()
    app.missed = lambda: port.missed
    end = _LbEnd()
    carrier = None
    try:
        app.program()
        if isinstance(app.pipeline, NativePipeline):
            carrier = NativeCarrier(app.pipeline, port, app.receive, end.lose)
            app.still = carrier.still
            carrier.start()
        else:
            port.start(app.receive, end.lose)
        await app.start()  # after the data plane, so that gRPC's start leaves no gap in it
        if port.medium != "tap":
            app.announce()
        if not config.admin_token:
            say(f"operator's token: {app.admin_token}")
        if reserve:
            print(app.reserve(reserve, senders), flush=True)
        _say_pipeline(app.pipeline)
        say("ready")
        await end.event.wait()
    finally:
        async with (
            contextlib.AsyncExitStack() as stack
        ):  # runs in reverse order, and runs all callbacks even if one fails
            stack.callback(port.close)
            if carrier is not None:
                stack.callback(carrier.close)
            stack.push_async_callback(app.stop)  # while frames still pass
    counters = app.pipeline.counters
    lost = port.lost + (carrier.lost if carrier is not None else 0)
    _say_totals(counters, lost, port.missed)
    say(f"sync messages: {counters.syncs} accepted, {counters.bad_syncs} refused")
    for refusal, count in counters.refusals.items():
        say(f"not believed, {refusal}: {count}")
    end.check()
