"""`opavnic cluster`, `node`: what the machines of one fabric need before they meet; and one more machine for a lab."""

from __future__ import annotations

import socket
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opavnic.cli.base.common import AsJson, LabOption, lab_client, time_option
from opavnic.cli.base.group import command_group
from opavnic.cli.base.output import fail, print_json, print_table, say
from opavnic.state.lab import LabState

if TYPE_CHECKING:
    from opavnic.cluster.protocol.zenoh_config import SessionPlan
    from opavnic.lab.run.lab import Lab
    from opavnic.state.lab import LabState


app = command_group("Fabrics over several machines: credentials of their nodes, and loads.")


@app.command()
def ca(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the CA is, or is to be made.")],
    nodes: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NAME", help="A node that gets a certificate; may be repeated."),
    ] = None,
    coordinators: Annotated[
        list[str] | None,
        typer.Option(
            "--coordinator",
            metavar="NAME",
            help="A node that may be coordinator; may be repeated. None: every node may.",
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=3650, help="Days for which new certificates are valid.")
    ] = 365,
    as_json: AsJson = False,
) -> None:
    """Make a CA for tests, and a folder with a certificate for each node.

    Copy DIR/NAME to the machine NAME. Where DIR is a CA already, only nodes that it has not seen get a certificate, and
    all folders get the new list of members; a running node knows it when it is started again.

    \b
    Example:
      opavnic cluster ca ~/fabric --coordinator head --node m1 --node m2
    """
    from opavnic.cluster.zenoh.credentials import make_authority

    made = make_authority(directory, nodes or [], coordinators=coordinators or [], days=days)
    rows = [(name, str(directory / name), "new" if is_new else "kept") for name, is_new in made.items()]
    if as_json:
        print_json(
            [{"node": node, "folder": folder, "is_new": state == "new"} for node, folder, state in rows]
        )
    else:
        print_table(("node", "folder", "certificate"), rows)


@app.command()
def loads(
    lab: LabOption = None,
    over: Annotated[Any, time_option("--for", low="1s", high="24h", help="How long to measure.")] = "10s",
    as_json: AsJson = False,
) -> None:
    """Measure what the links of a running lab carry, in bits per second, both directions together.

    Written to a file, it lets `opavnic up --cluster --loads FILE` place the lab by load, where its file says
    `cluster: {place: auto}`. It may come from one machine that has become too small.

    \b
    Example:
      opavnic cluster loads --for 1m --json > loads.json
    """
    from opavnic.cluster.protocol.placement import loads_between

    client = lab_client(lab)
    before = client.read(LabState, "/status")
    time.sleep(over)
    found = loads_between(before, client.read(LabState, "/status"))
    rows = sorted(found.links.items(), key=lambda row: -row[1])
    if as_json:
        print_json(asdict(found))
    else:
        print_table(("link", "bit/s"), rows)


Name = Annotated[
    str | None, typer.Option("--name", help="Name of this machine in the cluster; default: its host name.")
]
Credentials = Annotated[
    Path | None, typer.Option("--credentials", help="Folder with the certificate of this machine.")
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Allow addresses without TLS that other machines reach."),
]
Listen = Annotated[
    list[str] | None,
    typer.Option("--listen", help="Where other machines find this one: tls/ADDRESS:PORT."),
]


def node(
    join: Annotated[list[str], typer.Option("--join", help="The coordinator: tls/ADDRESS:PORT.")],
    file: Annotated[
        Path | None, typer.Argument(help="The lab file, if this machine has it; another one is refused.")
    ] = None,
    name: Name = None,
    listen: Listen = None,
    credentials: Credentials = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Join a lab that a coordinator runs on several machines, and carry a share of its hosts and switches.

    It runs until Ctrl-C, or until the lab ends.

    \b
    Example:
      opavnic node --join tls/192.0.2.1:7447 --credentials credentials/beta
    """
    from hfi_sim.base import precise_loop
    from opavnic.cluster.machines.run import run_member

    require_privilege()
    expected = None if file is None else read_lab_text(file)

    def ready(lab: Lab, state: LabState) -> None:
        if as_json:
            print_json(state.as_json())
        say(f"this machine's share of lab {lab.model.name} is running; end it with Ctrl-C")

    way = way_of(name, listen, credentials, insecure, join)
    removed = precise_loop.run(run_member(way, expected=expected, progress=say, ready=ready))
    if removed is not None:
        say(f"this machine's share of lab {removed.lab} is down, removed:")
        for line in removed.lines():
            say(f"  {line}")
        if removed.failed:
            fail(removed.complaint)


def require_privilege(*, namespaces: bool = False) -> None:
    """Fail unless this process may make TAPs (and `namespaces`) in the namespace where it runs, not a private one."""
    from opavnic.lab.file.errors import PrivilegeError
    from opavnic.lab.ownership.privileges import check_tun, has_capabilities

    check_tun()
    if not has_capabilities(namespaces=namespaces):
        needed = "CAP_NET_ADMIN and, for hosts in namespaces of their own, CAP_SYS_ADMIN"
        raise PrivilegeError(
            f"a machine of a cluster needs {needed}: without them a lab runs in a network of its own, which reaches no "
            "other machine; run this as root"
        )


def read_lab_text(file: Path) -> str:
    """Return the text of a lab file. Raises ConfigError."""
    from opavnic.lab.file.loader import KIND, MAX_FILE_BYTES
    from opavnic.lab.file.yaml_source import read_text

    return read_text(file, MAX_FILE_BYTES, KIND)


def way_of(
    name: str | None, listen: list[str] | None, credentials: Path | None, insecure: bool, join: list[str]
) -> SessionPlan:
    """Return how this machine reaches the others. Raises ClusterError, ClusterInputError."""
    from opavnic.cluster.protocol.membership import node_name
    from opavnic.cluster.protocol.zenoh_config import Address, SessionPlan
    from opavnic.cluster.zenoh.credentials import load_credentials

    own = None if credentials is None else load_credentials(credentials)
    host = socket.gethostname().partition(".")[0] if own is None else own.name
    return SessionPlan(
        node_name(name or host),
        listen=tuple(Address.parse(text, is_listen=True) for text in listen or ()),
        join=tuple(map(Address.parse, join)),
        credentials=own,
        is_insecure=insecure,
    )
