"""`opavnic metrics`, `web`: running labs as Prometheus metrics, and a running lab in a browser."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from opavnic.base.signals import interruptible
from opavnic.cli.base.common import LabOption
from opavnic.cli.base.output import print_line, say

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

    from opavnic.lab.ownership.runtime import LabDir
    from opavnic.observe.metrics import Scraped


ANSWER_S: Final = 5.0
"""Time limit for a lab's answer: half of Prometheus's default time limit for a scrape."""
DEFAULT_PORT: Final = 9811


def _address(value: object) -> tuple[str, int]:
    """Parse ADDRESS:PORT, [IPV6]:PORT, or a port alone for 127.0.0.1.

    Raises:  typer.BadParameter: it is not one of these.
    """
    import ipaddress

    host, _, port = str(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    try:
        ipaddress.ip_address(host)
        number = int(port)
        if not 0 <= number <= 0xFFFF:
            raise ValueError
    except ValueError:
        raise typer.BadParameter(
            f"{value!r} is not an address such as 127.0.0.1:{DEFAULT_PORT} or [::1]:{DEFAULT_PORT}"
        ) from None
    return host, number


def metrics(
    lab: LabOption = None,
    listen: Annotated[
        Any,
        typer.Option(
            "--listen",
            parser=_address,
            metavar="ADDRESS:PORT",
            help="Serve http://ADDRESS:PORT/metrics until Ctrl-C instead of printing once.",
        ),
    ] = None,
) -> None:
    """Print the state of running labs as Prometheus metrics, or serve it to a Prometheus server.

    Without --lab, the metrics of all running labs of this user; each has the label `lab`. Any client that reaches
    the address may read them and nothing else: choose one other than the loopback's with care.

    \b
    Example:
      opavnic metrics
      opavnic metrics --listen 127.0.0.1:9811
    """
    from opavnic.lab.ownership.runtime import running_lab

    if lab is not None:
        running_lab(lab)  # a wrong name is said now, not at every scrape
    registry = _registry(lab)
    if listen is None:
        from prometheus_client import generate_latest

        print(generate_latest(registry).decode(), end="")
        return
    _serve(registry, *listen)


def _serve(registry: CollectorRegistry, host: str, port: int) -> None:
    """Serve until a signal ends the program.

    Raises:  LabError: the address cannot be used.
    """
    from prometheus_client import start_http_server

    from opavnic.lab.file.errors import LabError

    with suppress(KeyboardInterrupt), interruptible():
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            raise LabError(f"cannot listen on {host} port {port}: {error.strerror}") from error
        shown = f"[{host}]" if ":" in host else host
        say(f"serving http://{shown}:{server.server_port}/metrics; end with Ctrl-C")
        try:
            threading.Event().wait()
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _registry(lab: str | None) -> CollectorRegistry:
    """Return a registry that asks the labs anew at each scrape. Args: lab: the only lab; None: all that run."""
    from prometheus_client.registry import Collector, CollectorRegistry

    class Labs(Collector):
        def collect(self) -> Iterator[Metric]:
            from opavnic.observe.metrics import metrics as metrics_of

            yield from metrics_of(_scrape(lab))

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Labs())
    return registry


def _scrape(lab: str | None) -> Iterator[Scraped]:
    """Ask each lab; one that ended in the meantime is left out, one that does not answer has no status."""
    from opavnic.lab.file.errors import LabError
    from opavnic.lab.ownership.runtime import all_labs

    with suppress(LabError):  # the directory of labs cannot be read: as if there were none
        for directory in all_labs():
            if lab is None or directory.name == lab:
                with suppress(LabError):
                    yield from _scrape_one(directory)


def _scrape_one(directory: LabDir) -> Iterator[Scraped]:
    from opavnic.lab.file.errors import LabError
    from opavnic.lab.ownership.client import LabClient
    from opavnic.observe.metrics import Scraped, lane_places
    from opavnic.state.fabric import FaultsSet, LanesState
    from opavnic.state.lab import LabState
    from opavnic.world.fabric_views import MAX_WAYS

    journal = directory.load()
    if journal is None or not journal.alive:
        return
    client = LabClient(directory.control_socket, limit_s=ANSWER_S)
    try:
        state = client.read(LabState, "/status")
        places = map(quote, lane_places(state.links, MAX_WAYS))
        lanes = [client.read(LanesState, f"/lanes?on={place}") for place in places]
        yield Scraped(directory.name, state, client.read(FaultsSet, "/faults"), lanes)
    except LabError:
        yield Scraped(directory.name, None)


WEB_PORT = 8311


def web(
    lab: LabOption = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="TCP port on 127.0.0.1; 0: any that is free.")
    ] = WEB_PORT,
) -> None:
    """Show a running lab in a browser, until Ctrl-C: its fabric, VNICs, events, faults and captures.

    Prints the URL to open. It holds a token, and only this machine can reach it: from another one, forward the port
    with ssh -L 8311:127.0.0.1:8311. The lab pays nothing while no page is open.

    \b
    Example:
      opavnic web
      opavnic web --lab two-hosts --port 0
    """
    from opavnic.lab.ownership.runtime import running_lab

    directory, journal = running_lab(lab)
    from opavnic.web.pages.watch import Watch
    from opavnic.web.scene.fm_page import PAGE as FM_PAGE
    from opavnic.web.scene.part_page import installed_pages
    from opavnic.web.server import application, listening, serve

    with suppress(KeyboardInterrupt), interruptible(), listening("127.0.0.1", port) as sock:
        token = secrets.token_urlsafe(24)
        watch = Watch(directory.control_socket, part_pages=[FM_PAGE, *installed_pages()])
        app = application(watch, journal.lab)
        print_line(f"http://127.0.0.1:{sock.getsockname()[1]}/?token={token}", flush=True)
        say("end with Ctrl-C")
        serve(app, sock, token)
