"""`lnetctl send` and `selftest`: messages from one host to another. The real tool has neither."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
import yaml

from hfi_sim.base.quantities import parse_size, parse_time
from lnet.cli.command import ENV_HOST, Host, print_answer
from lnet.settings.yaml_text import format_yaml
from opavnic.cli.base.common import AsJson, LabOption, lab_client, quantity
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, print_json, print_text, say
from opavnic.lab.file.errors import LabError

SILENT_S: Final = 1.0
"""Seconds without a reply after which a command says what it is waiting for."""
_ROUTES_SHOWN: Final = 4
_MEASURED: Final = (
    "opavnic: selftest of a running lab measures this machine's processor, not its links; "
    "`opavnic bench lnet` says what links would carry"
)
_HOW_LONG: Final = (
    "a message fails after the timeout in the lab file; one that the peer may have received fails "
    "only after six more timeouts (at least 20 s)"
)
SizeOption = Annotated[
    Any,  # an int; Any because the default is text such as 1M, which --help shows
    typer.Option("--size", parser=quantity(parse_size), metavar="SIZE", help="Message size: 100, 4K, 1M."),
]


def _above_zero(value: object) -> float:
    return quantity(partial(parse_time, above_zero=True))(value)


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tool."""
    app.command("send")(send)
    app.command("selftest")(selftest)


def send(
    to: Annotated[str, typer.Option("--to", help="A NID, or a host of the lab.")],
    count: Annotated[
        int, typer.Option("-c", "--count", help="Number of messages, sent one after the other.")
    ] = 3,
    size: SizeOption = "100",
    as_json: AsJson = False,
    host: Host = None,
    lab: LabOption = None,
) -> None:
    """Send messages one after the other and print the route of each.

    \b
    Example:
      opavnic lnetctl send --host a --to b --count 3
    """
    if not host:
        fail("send: no host to send from; give --host HOST, or run it with: opavnic exec HOST --", EXIT_USAGE)
    body = {"host": host, "to": to, "count": count, "size": size}
    client = lab_client(lab, 600.0)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.post, "/lnet-send", body)
        if not wait([future], timeout=SILENT_S).done:
            say(f"opavnic: send: waiting for {to}{_routes_text(client, host)}; {_HOW_LONG}")
        answer = future.result()
    if "data" not in answer:
        print_answer(answer, as_json)
    if as_json:
        print_json(answer["data"])
    else:
        print_text(format_yaml({"send": answer["data"]}))
    if any(message["status"] != "delivered" for message in answer["data"]):
        raise typer.Exit(EXIT_FAILED)


def selftest(
    source: Annotated[
        str | None, typer.Option("--from", help="The host that sends.", envvar=ENV_HOST)
    ] = None,
    to: Annotated[str, typer.Option("--to", help="The host, or NID, that receives.")] = "",
    size: SizeOption = "1M",
    concurrency: Annotated[int, typer.Option("--concurrency", help="Messages in transit at a time.")] = 8,
    duration: Annotated[
        Any, typer.Option("--time", parser=_above_zero, metavar="TIME", help="Duration: 10s, 5m.")
    ] = "10s",
    get: Annotated[bool, typer.Option("--get", help="Fetch (GET) instead of sending (PUT).")] = False,
    as_json: AsJson = False,
    lab: LabOption = None,
) -> None:
    """Load the routes between two hosts and print the throughput of each route.

    \b
    Example:
      opavnic lnetctl selftest --from h1 --to h2 --size 1M --time 10s
    """
    if not source or not to:
        fail("selftest: no hosts; give --from HOST and --to HOST", EXIT_USAGE)
    body = {
        "host": source,
        "to": to,
        "size": size,
        "concurrency": concurrency,
        "seconds": duration,
        "kind": "get" if get else "put",
    }
    client = lab_client(lab, duration + 600.0)
    with ThreadPoolExecutor(1) as pool:
        answer = _with_progress(pool.submit(client.post, "/lnet-selftest", body), duration)
    if "data" not in answer:
        print_answer(answer, as_json)
    data = answer["data"]
    if as_json:
        print_json(data)
    else:
        print_text(format_yaml({"selftest": [data]}))
        say(_MEASURED)
    if data["failed"]:
        say(f"opavnic: {data['failed']} messages failed")
        for failure in data["failures"]:
            say(f"  {failure['count']} times: {failure['reason']}")
        raise typer.Exit(EXIT_FAILED)


def _routes_text(client: Any, host: str) -> str:
    """Return the routes of a host that are down, with the reasons; an empty string if the lab does not answer."""
    body = {"verb": "show", "noun": "net_status", "args": {}}
    try:
        answer = client.post(f"/lnet/{quote(host, safe='')}/net_status", body)
    except LabError:
        return ""
    nets = (yaml.safe_load(answer["output"]) or {}).get("net_status", [])
    down = [
        f"{route['local ip']}->{route['remote ip']} {route['state']}"
        + (f" ({route['last error']})" if "last error" in route else "")
        for net in nets
        for route in net.get("routes", [])
        if route["state"] not in ("up", "new")
    ]
    return f": {', '.join(down[:_ROUTES_SHOWN])}" if down else ""


def _with_progress(future: Future[Any], seconds: float) -> Any:
    """Wait for the result, with a progress bar if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("selftest", total=seconds)
        while True:
            try:
                return future.result(timeout=0.1)
            except FutureTimeoutError:
                if future.done():
                    raise
                progress.advance(task, 0.1)
