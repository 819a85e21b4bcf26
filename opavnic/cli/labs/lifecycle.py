"""`opavnic up`, `down`, `prune`, `validate`: start, end and check labs."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opavnic.base.signals import EXIT_INTERRUPTED, interruptible
from opavnic.cli.base.common import ENV_LAB, AsJson, LabOption, lab_names
from opavnic.cli.base.output import EXIT_USAGE, fail, print_json, print_line, print_sheets, say
from opavnic.cli.labs.cluster import (
    Credentials,
    Insecure,
    Listen,
    Name,
    read_lab_text,
    require_privilege,
    way_of,
)

if TYPE_CHECKING:
    from opavnic.cluster.protocol.zenoh_config import SessionPlan
    from opavnic.lab.file.model import LabModel
    from opavnic.lab.run.detach import Tell
    from opavnic.lab.run.lab import Lab
    from opavnic.state.lab import LabState
    from opavnic.state.removed import Removed

File = Annotated[Path, typer.Argument(help="A lab file.")]
Untrusted = Annotated[
    bool,
    typer.Option(
        "--untrusted",
        help="The file is from a stranger: refuse what reaches beyond the lab (SECURITY.md), and bound its size.",
    ),
]


def up(
    file: File,
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Return once the lab is ready.")] = False,
    cluster: Annotated[
        bool,
        typer.Option("--cluster", help="Run it on several machines: the others join with `opavnic node`."),
    ] = False,
    wait: Annotated[
        int | None,
        typer.Option("--wait", min=1, help="With --cluster: machines to wait for, this one included."),
    ] = None,
    loads: Annotated[
        Path | None,
        typer.Option("--loads", help="With --cluster: place by what `opavnic cluster loads` has measured."),
    ] = None,
    name: Name = None,
    listen: Listen = None,
    credentials: Credentials = None,
    insecure: Insecure = False,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Start a lab. In the foreground it runs until Ctrl-C, which removes every trace of it.

    SIGTERM and SIGHUP act like Ctrl-C; under nohup, SIGHUP is ignored. With -d, all three end a lab that is still
    starting (exit code 130). Where a thread of the native datapath breaks, hosts and their programs stay until Ctrl-C
    or `opavnic down`; the exit code is 1 then.

    \b
    Example:
      opavnic up examples/two-hosts.yaml
      opavnic up examples/two-switches.yaml -d
      opavnic up lab.yaml --cluster --listen tls/192.0.2.1:7447 --credentials ca/a
      opavnic up --untrusted downloaded.yaml
    """
    from opavnic.lab.ownership.privileges import obtain

    if untrusted and cluster:
        fail("up: --untrusted and --cluster: a stranger's lab stays on one machine", EXIT_USAGE)
    model = _load(file, untrusted)
    if not cluster and (wait or loads or name or listen or credentials or insecure):
        fail("up: --wait, --loads, --name, --listen, --credentials and --insecure need --cluster", EXIT_USAGE)
    if cluster:
        require_privilege(namespaces=any(not host.is_machine for host in model.hosts.values()))
        _end_earlier_run(model.name)
        way = way_of(name, listen, credentials, insecure, [])
        _up_cluster(model, file.resolve(), way, wait, loads, detach, as_json)
        return
    _end_earlier_run(model.name)
    private = obtain(rootless=untrusted)
    if untrusted:
        from opavnic.lab.untrusted.checked_file import bound_lab

        bound_lab()
    make = partial(_make_lab, model, file.resolve(), private, untrusted)
    if detach:
        _up_detached(model, make, as_json)
    else:
        _up_here(make, as_json)


def _load(file: Path, untrusted: bool) -> LabModel:
    if untrusted:
        from opavnic.lab.untrusted.checked_file import load_untrusted

        return load_untrusted(file)
    from opavnic.lab.file.loader import load_lab

    return load_lab(file)


def _end_earlier_run(name: str) -> None:
    """Remove what an earlier, killed run of the lab left behind.

    The lab does this too, but once it has moved into namespaces of its own it can no longer see the programs that an
    unprivileged run left in others.
    """
    from opavnic.lab.ownership.cleanup import end_earlier_run
    from opavnic.lab.ownership.runtime import LabDir, runtime_root

    directory = LabDir(runtime_root() / name)
    if directory.path.is_dir():
        removed = end_earlier_run(directory)
        if removed is not None:
            say(removed.of_an_earlier_run())


def _make_lab(model: LabModel, file: Path, private: bool, untrusted: bool) -> Lab:
    from opavnic.lab.change.service import serve_changes
    from opavnic.lab.run.lab import Lab

    return serve_changes(Lab(model, file=str(file), private=private), untrusted=untrusted)


def _up_cluster(
    model: LabModel,
    file: Path,
    way: SessionPlan,
    wait: int | None,
    loads: Path | None,
    detach: bool,
    as_json: bool,
) -> None:
    from hfi_sim.base import precise_loop
    from opavnic.cluster.machines.run import load_loads, run_coordinator
    from opavnic.lab.run.detach import spawn

    text = read_lab_text(file)
    run = partial(
        run_coordinator,
        model,
        text,
        str(file),
        way,
        wait=wait,
        loads=None if loads is None else load_loads(loads, model),
    )
    if not detach:

        def ready(lab: Lab, state: LabState) -> None:
            _show_ready(state, as_json)
            say(f"lab {lab.model.name} is running; end it with Ctrl-C")

        _show_removed(model, precise_loop.run(run(progress=say, ready=ready)))
        return

    def body(tell: Tell) -> None:
        precise_loop.run(
            run(
                progress=lambda line: tell("progress", line),
                ready=lambda _, state: tell("ready", state.as_json()),
            )
        )

    _follow(model, spawn(body), as_json)


def _up_here(make: Callable[[], Lab], as_json: bool) -> None:
    from hfi_sim.base import precise_loop
    from opavnic.lab.run.daemon import run_lab

    lab = make()
    model = lab.model
    lab.progress = say

    def ready(state: LabState) -> None:
        _show_ready(state, as_json)
        say(f"lab {model.name} is running; end it with Ctrl-C")

    def broken(reason: str) -> None:
        say(f"lab {model.name} has ended: {reason}")
        say("hosts and their programs stay until Ctrl-C or: opavnic down")

    _show_removed(model, precise_loop.run(run_lab(lab, ready, broken=broken)))


def _show_removed(model: LabModel, removed: Removed) -> None:
    say(f"lab {model.name} is down, removed:")
    for line in removed.lines():
        say(f"  {line}")
    if removed.failed:
        fail(removed.complaint)


def _up_detached(model: LabModel, make: Callable[[], Lab], as_json: bool) -> None:
    from opavnic.lab.run.detach import spawn

    def body(tell: Tell) -> None:
        from hfi_sim.base import precise_loop
        from opavnic.lab.run.daemon import run_lab

        lab = make()
        lab.progress = lambda text: tell("progress", text)
        # the starter has left: status, ps and the log report a failure
        precise_loop.run(run_lab(lab, lambda state: tell("ready", state.as_json()), broken=lambda _: None))

    _follow(model, spawn(body), as_json)


def _follow(model: LabModel, started: Generator[tuple[str, Any], None, None], as_json: bool) -> None:
    """Say how a lab that starts in the background is doing, until it is ready or has failed."""
    from opavnic.state.lab import LabState

    try:
        with interruptible(), closing(started) as told:
            for word, value in told:
                if word == "progress":
                    say(value)
                elif word == "error":
                    fail(value)
                else:
                    state = LabState.of_json(value)
                    _show_ready(state, as_json)
                    say(
                        f"lab {model.name} is running in the background (pid {state.pid}); "
                        "end it with: opavnic down"
                    )
    except KeyboardInterrupt:
        fail(f"interrupted; lab {model.name} was not started", EXIT_INTERRUPTED)


def _show_ready(state: LabState, as_json: bool) -> None:
    from opavnic.cli.view.status import vnic_items

    if as_json:
        print_json(state.as_json())
    else:
        print_sheets(vnic_items(state))


def down(
    lab: Annotated[
        str | None,
        typer.Argument(help="Lab to end; may be left out if only one is running.", autocompletion=lab_names),
    ] = None,
    lab_option: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """End a running lab, remove every trace of it, and list what was removed.

    `opavnic down NAME` and `opavnic down --lab NAME` are the same.

    \b
    Example:
      opavnic down
      opavnic down two-hosts
    """
    from opavnic.cli.base.jobs import shown
    from opavnic.lab.run.down import end_lab

    if lab is not None and lab_option not in (None, lab, os.environ.get(ENV_LAB)):
        fail(f"down: {lab} and --lab {lab_option} are two labs; name one", EXIT_USAGE)
    name = lab or lab_option
    try:
        with interruptible():
            removed = end_lab(name, shown)
    except KeyboardInterrupt:
        fail(
            f"interrupted; lab {name or 'that runs'} goes on ending", EXIT_INTERRUPTED, hint="see: opavnic ps"
        )
    if as_json:
        print_json(removed.as_json())
    else:
        print_line(f"lab {removed.lab} is down, removed:")
        for line in removed.lines():
            print_line(f"  {line}")
    if removed.failed:
        fail(removed.complaint)


def prune(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Only list what would be removed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what killed labs left behind, and labs that have ended by themselves; running labs and foreign objects are
    left alone.

    \b
    Example:
      opavnic prune --dry-run
      opavnic prune
    """
    from opavnic.lab.ownership.cleanup import prune as prune_labs
    from opavnic.lab.run.down import end_failed

    removed = end_failed(dry_run=dry_run) + prune_labs(dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, "labs": [one.as_json() for one in removed]})
        return
    if not removed:
        print_line("nothing to remove")
    for one in removed:
        print_line(f"lab {one.lab} is gone, {'would remove' if dry_run else 'removed'}:")
        for line in one.lines():
            print_line(f"  {line}")


def validate(file: File, untrusted: Untrusted = False, as_json: AsJson = False) -> None:
    """Check a lab file and report every mistake with file, line and path. Needs no privilege.

    \b
    Example:
      opavnic validate examples/two-hosts.yaml
    """
    from hfi_sim.base.text import counted
    from opavnic.lab.file.errors import ConfigError

    try:
        model = _load(file, untrusted)
    except ConfigError as error:
        if as_json:
            print_json({"ok": False, "problems": list(error.problems)})
            raise typer.Exit(EXIT_USAGE) from None
        raise
    if as_json:
        print_json({"ok": True, "problems": [], "lab": model.model_dump(mode="json")})
        return
    hosts = counted(len(model.hosts), "host")
    vesws = counted(len(model.vesws), "virtual switch", "virtual switches")
    print_line(f"{file}: lab {model.name} is valid: {hosts}, {vesws}")
