"""`opavnic em`: the Ethernet Manager of a running lab, or one that runs as a program."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from opavnic.base.signals import followed
from opavnic.base.state import StateModel
from opavnic.cli.base.common import METAVAR, AsJson, LabOption, lab_client, number, vesw_names
from opavnic.cli.base.group import command_group
from opavnic.cli.base.jobs import job_result
from opavnic.cli.base.output import (
    EXIT_FAILED,
    EXIT_USAGE,
    complain,
    fail,
    print_json,
    print_line,
    write_file,
)
from opavnic.cli.manage.em_tables import SHOWN, Topic, show_state
from opavnic.lab.file.em_file import load_em_file
from opavnic.lab.file.errors import ConfigError, LabError
from opavnic.lab.ownership.client import RefusedFileError
from opavnic.state.em import (
    EmApplied,
    EmEvents,
    EmRestarted,
    EmState,
    EmVerified,
)
from vema.base.types import MAX_VESW_ID
from vema.em.desired.problems import Problem

if TYPE_CHECKING:
    from opavnic.lab.ownership.client import LabClient

MAX_LIMIT = 1_000_000
WATCH_S = 1.0
"""Seconds between two polls of --watch."""
Model = TypeVar("Model", bound=StateModel)

app = command_group("The Ethernet Manager of a running lab, or as a program on a umad device.")


def _managers(incomplete: str) -> list[str]:
    """Complete the GUID of a port that a manager runs on."""
    from opavnic.manager.place_files import sockets

    return [guid for path in sockets() if (guid := f"0x{path.stem}").startswith(incomplete)]


EmOption = Annotated[
    str | None,
    typer.Option(
        "--em",
        envvar="OPAVNIC_EM",
        metavar="SOCKET|GUID",
        help="A manager that runs as a program (em run); by its socket, or the GUID of its port.",
        autocompletion=_managers,
    ),
]


def _program(lab: str | None, em: str | None) -> Path | None:
    """Return the socket of the program that is meant; None: the manager of a lab is.

    Raises:  OpavnicError, LabError: there is none, or several.
    """
    from opavnic.lab.file.errors import NoLabError
    from opavnic.lab.ownership.runtime import running_lab
    from opavnic.manager.place_files import socket_of, sockets

    if em is not None:
        return socket_of(em)
    if lab is None:
        try:
            running_lab(None)
        except NoLabError:
            if len(there := sockets()) == 1:
                return there[0]
            raise
    return None


def em_client(lab: str | None, em: str | None) -> LabClient:
    """Return the control API of the manager that is meant. Raises as `_program`."""
    from opavnic.lab.ownership.client import LabClient

    path = _program(lab, em)
    return lab_client(lab) if path is None else LabClient(path, whose="the Ethernet Manager")


def em_result(lab: str | None, em: str | None, model: type[Model], path: str, body: object = None) -> Model:
    """Let the manager do what may take long: in a lab as a job, which shows how far it is. Raises as `_program`."""
    if _program(lab, em) is None:
        return job_result(lab_client(lab), model, "POST", path, body)
    return em_client(lab, em).change(model, path, body)


@app.command(epilog="Example: opavnic em run fabric.yaml --database /var/lib/opavnic-em/em.db")
def run(
    config: Annotated[Path, typer.Argument(help="An EM file (YAML).")],
    device: Annotated[
        str, typer.Option("--device", metavar="PATH", help="A umad device, such as /dev/infiniband/umad0.")
    ] = "",
    port: Annotated[
        str,
        typer.Option(
            "--port", metavar="PORT", help="Such as hfi1_0:1, or a port GUID; else the first active."
        ),
    ] = "",
    database: Annotated[
        str,
        typer.Option(
            "--database", metavar="FILE", help="Its memory; else it asks the agents after a restart."
        ),
    ] = "",
    control: Annotated[
        str,
        typer.Option(
            "--control", metavar="SOCKET", help="Its control socket; else one beside those of labs."
        ),
    ] = "",
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="ADDRESS:PORT", help="Serve metrics for Prometheus there.")
    ] = "",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="HOST", help="Keep to this host, HFI, port or GUID; may be repeated."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Run the Ethernet Manager on a port of this machine, without a lab, until SIGTERM; SIGHUP reads CONFIG again.

    It needs no root, only the right to open the umad device. When it ends, the fabric stays as it is.
    """
    from opavnic.manager.run_options import ManagerOptions
    from opavnic.manager.start_run import start

    options = ManagerOptions(config, device, port, database, control, metrics, tuple(only or ()))
    raise typer.Exit(start(options, verbose=verbose))


@app.command(epilog="Example: opavnic em status --json")
def status(lab: LabOption = None, manager: EmOption = None, as_json: AsJson = False) -> None:
    """Show how the manager is: role, convergence, port, and what keeps it from its work.

    Exit 1: it is the master and has not converged, or something is wrong.
    """
    state = em_client(lab, manager).read(EmState, "/em/state")
    if as_json:
        print_json(state.as_json())
    else:
        show_state(state)
    if state.trouble or (state.role == "master" and not state.converged):
        raise typer.Exit(EXIT_FAILED)


@app.command(epilog="Example: opavnic em preview tenants.yaml")
def preview(
    file: Annotated[Path, typer.Argument(help="An EM file (YAML).")],
    lab: LabOption = None,
    manager: EmOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what an EM file would change; the same as apply --dry-run."""
    apply(file, dry_run=True, lab=lab, manager=manager, as_json=as_json)


@app.command(epilog="Example: opavnic em events --limit 20")
def events(
    limit: Annotated[int, typer.Option("--limit", min=1, max=MAX_LIMIT, help="How many to show.")] = 50,
    lab: LabOption = None,
    manager: EmOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what has happened; the same as show events."""
    show(Topic.EVENTS, limit=limit, lab=lab, manager=manager, as_json=as_json)


@app.command(epilog="Example: opavnic em apply tenants.yaml --dry-run")
def apply(
    file: Annotated[Path, typer.Argument(help="An EM file (YAML).")],
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Only show what would change.")] = False,
    lab: LabOption = None,
    manager: EmOption = None,
    as_json: AsJson = False,
) -> None:
    """Apply an EM file to a running lab; what already matches is not touched."""

    def on_the_fabric(data: Any) -> tuple[Problem, ...]:
        try:
            em_client(lab, manager).post("/em/apply?diff=1", data)
        except RefusedFileError as error:
            return error.found
        except (LabError, TypeError, ValueError):
            pass  # no lab, or values that JSON cannot express: checking the file alone is enough
        return ()

    try:
        config, source = load_em_file(file, on_the_fabric)
    except ConfigError as error:
        _refuse(error.problems)
    wanted = json.loads(config.model_dump_json(exclude_unset=True))  # the lab fills in the same defaults
    try:
        path = "/em/apply?diff=1" if dry_run else "/em/apply"
        applied = em_result(lab, manager, EmApplied, path, wanted)
    except RefusedFileError as error:
        _refuse(source.lines(str(file), error.found))
    if as_json:
        print_json(applied.as_json())
    else:
        for line in applied.changes:
            print_line(line)
        if not dry_run:
            print_line(f"{applied.sets} Sets sent")
    if not dry_run and not applied.converged:
        fail("the manager has not finished; see: opavnic em show vports", EXIT_FAILED)


def _refuse(lines: Iterable[str]) -> NoReturn:
    problems = list(lines)
    complain("\n".join(problems), EXIT_USAGE, problems=problems)
    raise typer.Exit(EXIT_USAGE)


@app.command(epilog="Example: opavnic em show mac-table --vesw 2 --json")
def show(
    topic: Annotated[Topic, typer.Argument(help="What to show.")],
    vesw: Annotated[
        int | None,
        typer.Option(
            "--vesw",
            metavar=METAVAR,
            parser=number(1, MAX_VESW_ID),
            help="MAC table: only the virtual switch with this id.",
            autocompletion=vesw_names,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=MAX_LIMIT, help="Counters and events: how many to show.")
    ] = 50,
    watch: Annotated[
        bool,
        typer.Option("-w", "--watch", help="Repeat every second, until Ctrl-C (or SIGTERM, SIGHUP)."),
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Events: also draw them over time.")
    ] = None,
    lab: LabOption = None,
    manager: EmOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what the manager knows: virtual switches, vports, MAC tables, counters, events."""
    if svg is not None and topic is not Topic.EVENTS:
        fail(f"--svg {svg}: {topic.value} have no time to be drawn over; em show events has", EXIT_USAGE)
    client = em_client(lab, manager)
    path = {
        Topic.MAC_TABLE: "/em/mac-table" + (f"?vesw={vesw}" if vesw is not None else ""),
        Topic.COUNTERS: f"/em/counters?limit={limit}",
        Topic.EVENTS: f"/em/events?limit={limit}",
    }.get(topic, f"/em/{topic.value}")
    model, table = SHOWN[topic]

    def poll() -> None:
        reply = client.read(model, path)
        if svg is not None and isinstance(reply, EmEvents):
            from opavnic.observe.drawings import events_drawing

            write_file(svg, events_drawing(reply.events).document("Events of the Ethernet Manager"))
        if as_json:
            print_json(reply.as_json())
            return
        table(reply)

    if not watch:
        poll()
        return
    with suppress(KeyboardInterrupt), followed():
        while True:
            poll()
            sys.stdout.flush()
            time.sleep(WATCH_S)


@app.command(epilog="Example: opavnic em verify")
def verify(lab: LabOption = None, manager: EmOption = None, as_json: AsJson = False) -> None:
    """Read everything from every agent and print what differs from the configuration; exit 1 on a difference."""
    verified = em_result(lab, manager, EmVerified, "/em/verify")
    if as_json:
        print_json(verified.as_json())
    else:
        for line in verified.differences:
            print_line(line)
        if not verified.differences:
            print_line("every agent matches the configuration")
    if verified.differences:
        raise typer.Exit(EXIT_FAILED)


@app.command(epilog="Example: opavnic em restart --forget")
def restart(
    forget: Annotated[
        bool, typer.Option("--forget", help="Without its database: it asks the agents what they have.")
    ] = False,
    lab: LabOption = None,
    manager: EmOption = None,
    as_json: AsJson = False,
) -> None:
    """Restart the manager, as if its process were killed; agents and VNICs go on meanwhile.

    It comes back with its configuration and its database. For a longer absence: opavnic fault add crash on em for=30s
    """
    restarted = em_result(lab, manager, EmRestarted, "/em/restart", {"memory": not forget})
    if as_json:
        print_json(restarted.as_json())
    else:
        print_line(f"restarted; {restarted.sets} Sets sent")
    if not restarted.converged:
        fail("the manager has not finished; see: opavnic em show vports", EXIT_FAILED)
