"""`opavnic ejfat lb`: the load balancer as a program, on an interface of Linux or a TAP of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ejfat.cli.addresses import IpAddress, parse_ip, parse_ips
from ejfat.errors import BadRequestError, EjfatError
from opavnic.cli.output import say
from opavnic.signals import call_on_ending_signals

if TYPE_CHECKING:
    from ejfat.live.app import AppConfig
    from ejfat.live.ports import FramePort

TAP_MAC = "02:4c:42:00:00:01"


def lb(
    interface: Annotated[str, typer.Option(help="Interface of Linux to stand on (AF_PACKET).")] = "",
    tap: Annotated[str, typer.Option(help="Make a TAP of this name and stand on it.")] = "",
    mac: Annotated[str, typer.Option(help="Our MAC address; without it that of --interface.")] = "",
    ipv4: Annotated[
        list[str] | None, typer.Option(help="Our IPv4 address; again for further instances.")
    ] = None,
    ipv6: Annotated[
        list[str] | None, typer.Option(help="Our IPv6 address; again for further instances.")
    ] = None,
    listen: Annotated[
        str, typer.Option(help="gRPC of the control plane: HOST:PORT or unix:PATH.")
    ] = "127.0.0.1:18008",
    token: Annotated[
        str, typer.Option(envvar="EJFAT_ADMIN_TOKEN", help="The operator's token; made where missing.")
    ] = "",
    state: Annotated[Path | None, typer.Option(help="SQLite file that outlives the process.")] = None,
    reserve: Annotated[str, typer.Option(help="Reserve at start under this name and print the URI.")] = "",
    senders: Annotated[str, typer.Option(help="Senders of that reservation: IP,IP,...")] = "",
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    p4_listen: Annotated[str, typer.Option(help="gRPC for a foreign control plane.")] = "",
    p4_token: Annotated[str, typer.Option(envvar="EJFAT_P4_TOKEN", help="Token that it must carry.")] = "",
    p4_open: Annotated[
        bool, typer.Option("--p4-open", help="No token: let anybody who reaches it program the tables.")
    ] = False,
    no_v1: Annotated[bool, typer.Option("--no-v1", help="Do not serve senders of header version 1.")] = False,
    period: Annotated[
        float, typer.Option(min=0.05, max=3600, help="Seconds between looks at the workers.")
    ] = 1.0,
    pipeline: Annotated[
        Literal["auto", "python", "native"],
        typer.Option(help="auto: the native one, in a thread of its own, where it is built."),
    ] = "auto",
) -> None:
    """Run a load balancer on an interface until Ctrl-C (or SIGTERM, SIGHUP), data plane and control plane."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what gRPC says on stderr, we say in a line of our own
    from ejfat.control.grpc.listening import check_listen
    from ejfat.control.plane import InstanceAddresses, PlaneConfig
    from ejfat.live.app import AppConfig
    from ejfat.live.ports import PacketPort, TapPort, interface_mac
    from hfi_sim.types import parse_mac

    if bool(interface) == bool(tap):
        raise BadRequestError("give either --interface or --tap")
    if not ipv4 and not ipv6:
        raise BadRequestError("give --ipv4 or --ipv6, or both")
    if senders and not reserve:
        raise BadRequestError(
            "--senders are those of the reservation at start: give --reserve NAME with them"
        )
    if bool(tls_cert) != bool(tls_key):
        raise BadRequestError("--tls-cert and --tls-key go together")
    for option, address in (("--listen", listen), ("--p4-listen", p4_listen or listen)):
        try:
            check_listen(address)
        except BadRequestError as error:
            raise BadRequestError(f"{option} {error}") from None
    try:
        # a TAP of our own has another MAC than we, as the far end of a wire has
        number = int.from_bytes(parse_mac(mac or (interface_mac(interface) if interface else TAP_MAC)), "big")
    except ValueError as error:
        raise BadRequestError(str(error)) from None
    plane = PlaneConfig(
        mac=number,
        instances=tuple(
            InstanceAddresses(parse_ip(four, 4) if four else None, parse_ip(six, 6) if six else None)
            for four, six in zip_longest(ipv4 or [], ipv6 or [], fillvalue="")
        ),
        sync_host=(ipv4 or ipv6 or [""])[0],
        with_v1=not no_v1,
    )
    plane.check()
    tls = None
    if tls_cert and tls_key:
        from ejfat.control.grpc.serving import Tls

        tls = Tls(tls_cert, tls_key)
    config = AppConfig(
        plane,
        listen,
        token,
        state,
        period_s=period,
        tls=tls,
        p4_listen=p4_listen,
        p4_token=p4_token,
        p4_open=p4_open,
        pipeline=pipeline,
    )
    config.check()
    wanted = parse_ips(senders)
    asyncio.run(_serve(config, lambda: PacketPort(interface) if interface else TapPort(tap), reserve, wanted))


async def _serve(
    config: AppConfig,
    make_port: Callable[[], FramePort],
    reserve: str,
    senders: list[IpAddress],
) -> None:
    from ejfat.live.app import LbApp
    from ejfat.live.carrier import NativeCarrier
    from ejfat.pipeline.native import NativePipeline

    app = LbApp(config, lambda frame: port.send(frame))  # what it refuses is refused before a TAP is made
    port = make_port()
    ended = asyncio.Event()
    call_on_ending_signals(ended.set)
    failures: list[str] = []

    def failed(reason: str) -> None:
        failures.append(reason)
        ended.set()

    carrier = None
    try:
        app.program()
        if isinstance(app.pipeline, NativePipeline):
            carrier = NativeCarrier(app.pipeline, port, app.receive, failed)
            app.still = carrier.still
            carrier.start()
        else:
            port.start(app.receive, failed)
        await app.start()  # after the data plane: what gRPC takes to start is no gap in it
        if not config.admin_token:
            say(f"operator's token: {app.admin_token}")
        if reserve:
            print(app.reserve(reserve, senders), flush=True)
        why = f" ({app.pipeline_reason})" if app.pipeline_reason else ""
        say(f"pipeline: {app.pipeline.backend}{why}")
        say("ready")
        await ended.wait()
    finally:
        async with contextlib.AsyncExitStack() as stack:  # the last one first, each whatever another does
            stack.callback(port.close)
            if carrier is not None:
                stack.callback(carrier.close)
            stack.push_async_callback(app.stop)  # while frames still pass
    counters = app.pipeline.counters
    lost = port.lost + (carrier.lost if carrier is not None else 0)
    say(
        f"{counters.rx_packets} frames in, {counters.tx_packets} forwarded, {counters.dropped} dropped, "
        f"{lost} not taken by the interface"
    )
    say(f"sync messages: {counters.syncs} believed, {counters.bad_syncs} refused")
    for reason, count in sorted(counters.drops.items()):
        say(f"dropped at {reason}: {count}")
    if failures:
        raise EjfatError(f"the interface is lost: {failures[0]}")
