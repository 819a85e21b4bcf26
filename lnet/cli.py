"""`opavnic lnetctl`: the commands of the real tool on a host of a running lab, with its YAML output and errors."""

from __future__ import annotations

import json
import sys
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
import yaml

from hfi_sim.quantities import parse_size, parse_time
from lnet.dlc import MAX_TEXT, format_yaml
from lnet.not_built import LnetctlGroup, NetGroup, PeerGroup
from opavnic.cli.common import AsJson, LabOption, lab_client, quantity
from opavnic.cli.group import command_group
from opavnic.cli.output import EXIT_FAILED, EXIT_USAGE, fail, print_json, print_text, say
from opavnic.files import read_stream, text_of
from opavnic.lab.errors import LabError

MAX_FILE: Final = MAX_TEXT
"""Maximum size of a configuration, in bytes."""
SILENT_S: Final = 1.0
"""Seconds without a reply after which a command says what it is waiting for."""
_COMMAND_S: Final = 60.0
"""Timeout of a command on a host, in seconds."""
_ROUTES_SHOWN: Final = 4
_HOW_LONG: Final = (
    "a message fails after the timeout in the lab file; if the peer may have received it, after "
    "another six times that (at least 20 s)"
)
ENV_HOST: Final = "OPAVNIC_HOST"
"""Set by `opavnic exec`, so that --host is implied inside it."""

app = command_group("Configure and inspect LNet on the hosts of a lab.", cls=LnetctlGroup)
o2ibs = command_group("Targets: the addresses at which a NID can be reached.")
net = command_group("Networks: several interfaces under one NID.", cls=NetGroup)
app.add_typer(o2ibs, name="o2ibs")
app.add_typer(net, name="net")
peer = command_group("Peers on networks with Multi-Rail.", cls=PeerGroup)
app.add_typer(peer, name="peer")

Host = Annotated[
    str | None,
    typer.Option("--host", help="The host; implied inside `opavnic exec HOST`.", envvar=ENV_HOST),
]
Net = Annotated[str | None, typer.Option("--net", help="A network: o2ib0.")]
NeededNet = Annotated[str, typer.Option("--net", help="A network: o2ib0.")]
SizeOption = Annotated[
    Any,  # an int; Any because the default is text such as 1M, which --help shows
    typer.Option("--size", parser=quantity(parse_size), metavar="SIZE", help="Message size: 100, 4K, 1M."),
]


def _above_zero(value: object) -> float:
    return quantity(partial(parse_time, above_zero=True))(value)


def _milliseconds(value: object) -> float:
    """Read a time; a number alone is in milliseconds, as in the real tool."""
    return _above_zero(f"{value}ms" if str(value).isascii() and str(value).isdigit() else value)


def _command(
    host: str | None,
    lab: str | None,
    command: str,
    verb: str,
    noun: str,
    *,
    as_json: bool = False,
    **args: Any,
) -> None:
    """Run a command on a host and print its output."""
    if not host:
        name = noun if noun == command else verb if noun in ("yaml", "ping") else f"{noun} {verb}"
        fail(f"{name}: no host; give --host HOST, or run it with: opavnic exec HOST --", EXIT_USAGE)
    body = {"verb": verb, "noun": noun, "args": {k: v for k, v in args.items() if v is not None}}
    answer = lab_client(lab, _COMMAND_S).post(f"/lnet/{quote(host, safe='')}/{command}", body)
    _print_answer(answer, as_json)


def _print_answer(answer: dict[str, Any], as_json: bool = False) -> None:
    """Print the output on stdout or the errors on stderr, so that no error gets into a file of `export`."""
    if answer["errors"]:
        errors = answer["errors"]
        for line in [json.dumps(yaml.safe_load(errors))] if as_json else errors.splitlines():
            say(line)
    elif as_json:
        print_json(yaml.safe_load(answer["output"]) or {})
    else:
        print_text(answer["output"])
    if answer["exit"]:
        raise typer.Exit(EXIT_FAILED)


@o2ibs.command("add")
def o2ibs_add(
    nid: Annotated[str, typer.Option("--nid", help="The NID: 10.1.1.2@o2ib0.")],
    ips: Annotated[
        list[str], typer.Option("--ips", help="Its addresses, 1 to 16: --ips A B C or --ips A,B.")
    ],
    more: Annotated[list[str] | None, typer.Argument(help="Further addresses.", metavar="IP")] = None,
    host: Host = None,
    lab: LabOption = None,
) -> None:
    """Add a target.

    \b
    Example:
      opavnic lnetctl o2ibs add --host a --nid 10.1.1.5@o2ib0 \\
        --ips 10.1.1.5 10.1.1.6
    """
    words = " ".join([*ips, *(more or [])]).replace(",", " ").split()
    _command(host, lab, "o2ibs_add", "add", "o2ibs", nid=nid, ips=words)


@o2ibs.command("del")
def o2ibs_del(
    nid: Annotated[str, typer.Option("--nid", help="The NID.")], host: Host = None, lab: LabOption = None
) -> None:
    """Remove a target.

    \b
    Example:
      opavnic lnetctl o2ibs del --host a --nid 10.1.1.5@o2ib0
    """
    _command(host, lab, "o2ibs_del", "del", "o2ibs", nid=nid)


@o2ibs.command("show")
def o2ibs_show(
    net_name: Net = None, host: Host = None, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """Show the targets, of one network or of all.

    \b
    Example:
      opavnic lnetctl o2ibs show --host a --net o2ib0
    """
    _command(host, lab, "o2ibs_show", "show", "o2ibs", net=net_name, as_json=as_json)


@o2ibs.command("check")
def o2ibs_check(
    net_name: NeededNet, host: Host = None, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """Check that targets and devices match; if not, print what would be right and exit 1.

    \b
    Example:
      opavnic lnetctl o2ibs check --host a --net o2ib0
    """
    _command(host, lab, "o2ibs_check", "check", "o2ibs", net=net_name, as_json=as_json)


@net.command("add")
def net_add(
    net_name: NeededNet,
    interfaces: Annotated[list[str], typer.Option("--if", help="Its interfaces: ib0,ib1.")],
    host: Host = None,
    lab: LabOption = None,
) -> None:
    """Add a network, or interfaces to a network.

    \b
    Example:
      opavnic lnetctl net add --host a --net o2ib1 --if ib1,ib3
    """
    words = ",".join(interfaces).replace(",", " ").split()
    _command(host, lab, "net_add", "add", "net", net=net_name, interfaces=words)


@net.command("del")
def net_del(
    net_name: NeededNet,
    interface: Annotated[str | None, typer.Option("--if", help="Remove only this interface.")] = None,
    host: Host = None,
    lab: LabOption = None,
) -> None:
    """Remove a network, or one of its interfaces, after settling messages in transit.

    \b
    Example:
      opavnic lnetctl net del --host a --net o2ib0 --if ib2
    """
    _command(host, lab, "net_del", "del", "net", net=net_name, interface=interface)


@net.command("show")
def net_show(net_name: Net = None, host: Host = None, lab: LabOption = None, as_json: AsJson = False) -> None:
    """Show the networks of a host.

    \b
    Example:
      opavnic lnetctl net show --host a
    """
    _command(host, lab, "net_show", "show", "net", net=net_name, as_json=as_json)


@peer.command("show")
def peer_show(
    nid: Annotated[str | None, typer.Option("--nid", help="The peer with this NID.")] = None,
    host: Host = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Show peers, with their interfaces and the health of each.

    \b
    Example:
      opavnic lnetctl peer show --host a
    """
    _command(host, lab, "peer_show", "show", "peer", nid=nid, as_json=as_json)


@app.command("net_status")
def net_status(
    net_name: Net = None, host: Host = None, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """Show devices and routes, with their states and counters.

    \b
    Example:
      opavnic lnetctl net_status --host a --net o2ib0
    """
    _command(host, lab, "net_status", "show", "net_status", net=net_name, as_json=as_json)


@app.command("import")
def import_command(
    file: Annotated[
        typer.FileBinaryRead | None, typer.Argument(help="A YAML file; without it, stdin.")
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add what the file has; the default.")] = False,
    remove: Annotated[bool, typer.Option("--del", help="Remove what the file has.")] = False,
    host: Host = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Import a configuration from YAML, completely or, if anything is wrong, not at all.

    Exports of the real tool are read, too; what is not applied is named.

    \b
    Example:
      opavnic lnetctl import --host a < o2ibs.yaml
    """
    if add and remove:
        fail("import: --add and --del exclude each other", EXIT_USAGE)
    stream = sys.stdin.buffer if file is None else file
    text = text_of(read_stream(stream, "import", MAX_FILE, "configuration"), "import")
    command = "remove_yaml" if remove else "import_yaml"
    _command(host, lab, command, "import", "yaml", text=text, as_json=as_json)


@app.command("export")
def export_command(host: Host = None, lab: LabOption = None, as_json: AsJson = False) -> None:
    """Print the configuration in the format that `import` reads.

    \b
    Example:
      opavnic lnetctl export --host a > a.yaml
    """
    _command(host, lab, "export_yaml", "export", "yaml", as_json=as_json)


@app.command("ping")
def ping(
    nids: Annotated[list[str], typer.Argument(help="The NIDs to query: A B or A,B.", metavar="NID...")],
    timeout: Annotated[
        Any,
        typer.Option(
            "--timeout",
            parser=_milliseconds,
            metavar="TIME",
            help="Maximum time to wait for each: 500ms, 5s; a number alone is in ms.",
        ),
    ] = "5s",
    host: Host = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Ask nodes for their NIDs. If one does not answer, the others are asked nevertheless, and the exit code is 1.

    \b
    Example:
      opavnic lnetctl ping 10.1.1.5@o2ib0 --host a
    """
    words = ",".join(nids).replace(",", " ").split()
    _command(host, lab, "ping", "manage", "ping", nids=words, timeout_s=timeout, as_json=as_json)


@app.command("send")
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
        if not _done_within(future, SILENT_S):
            say(f"opavnic: send: waiting for {to}{_routes_text(client, host)}; {_HOW_LONG}")
        answer = future.result()
    if "data" not in answer:
        _print_answer(answer, as_json)
    if as_json:
        print_json(answer["data"])
    else:
        print_text(format_yaml({"send": answer["data"]}))
    if any(message["status"] != "delivered" for message in answer["data"]):
        raise typer.Exit(EXIT_FAILED)


@app.command("selftest")
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
        _print_answer(answer, as_json)
    data = answer["data"]
    if as_json:
        print_json(data)
    else:
        print_text(format_yaml({"selftest": [data]}))
    if data["failed"]:
        say(f"opavnic: {data['failed']} messages failed")
        for failure in data["failures"]:
            say(f"  {failure['count']} times: {failure['reason']}")
        raise typer.Exit(EXIT_FAILED)


def _done_within(future: Future[Any], seconds: float) -> bool:
    return bool(wait([future], timeout=seconds).done)


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
