"""`opavnic ps`, `logs`, `job`: which labs there are, what they have logged, and their long operations."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from opavnic.base.signals import followed
from opavnic.cli.base.common import AsJson, LabOption, lab_client
from opavnic.cli.base.group import command_group
from opavnic.cli.base.output import fail, pick, print_json, print_line, print_table, say, wrong

if TYPE_CHECKING:
    from opavnic.lab.ownership.runtime import LabDir


def ps(as_json: AsJson = False) -> None:
    """List running labs, labs that have ended by themselves, and killed labs that left something behind.

    \b
    Example:
      opavnic ps
    """
    from opavnic.lab.file.errors import JournalError
    from opavnic.lab.ownership.runtime import all_labs

    found = []
    for lab in all_labs():
        journal = None
        state = "gone (opavnic prune)"
        try:
            journal = lab.load()
        except JournalError:
            state = "unknown: its journal cannot be read"
        running = journal is not None and journal.alive
        failure = journal.failure if journal is not None and running else ""
        if running:
            state = "ended (opavnic down)" if failure else "running"
        found.append(
            {
                "lab": lab.name,
                "state": state,
                "pid": journal.pid if journal is not None and running else None,
                "hosts": len(journal.hosts) if journal is not None else 0,
                "file": journal.file if journal is not None else "",
                "failure": failure,
            }
        )
    if as_json:
        print_json(found)
    elif not found:
        print_line("no lab is running")
    else:
        columns = ("lab", "state", "pid", "hosts", "file")
        rows = [
            [one["lab"], wrong(one["state"], one["state"] != "running"), *pick(one, *columns[2:])]
            for one in found
        ]
        print_table(columns, rows)
        for one in found:
            if one["failure"]:
                print_line(f"lab {one['lab']} has ended: {one['failure']}")


def _killed(name: str | None) -> LabDir | None:
    """Return the killed lab of that name (None: the only one, if no lab is running), if it left a log."""
    from opavnic.lab.ownership.runtime import all_labs

    labs = all_labs()
    killed = [lab for lab in labs if not lab.running]
    found = [lab for lab in killed if lab.name == name]
    if name is None and len(labs) == len(killed) == 1:
        found = killed
    return next((lab for lab in found if lab.log_file.exists() or lab.old_log_file.exists()), None)


def logs(
    lab: LabOption = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep following until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the log of a running lab, or of a killed one until it is pruned.

    -f ends with Ctrl-C (or SIGTERM, SIGHUP; exit code 0), or when the lab ends. With --json, each line of the log is
    one JSON object, {"line": ...}.

    \b
    Example:
      opavnic logs -f
    """
    show = _print_json_line if as_json else _print_line
    killed = _killed(lab)
    if killed is not None:
        for line in killed.log_lines():
            show(line)
        return
    client = lab_client(lab)
    if not follow:
        for line in client.stream("/logs"):
            show(line)
        return
    with suppress(KeyboardInterrupt), followed():
        for line in client.stream("/logs?follow=1"):
            show(line)


def _print_line(line: str) -> None:
    print_line(line, flush=True)


def _print_json_line(line: str) -> None:
    print(json.dumps({"line": line}), flush=True)


app = command_group("Watch, await and cancel what takes long in a running lab.")

Number = Annotated[int, typer.Argument(help="Number of the job, from `opavnic job list`.", min=1)]


@app.command("list", epilog="Example: opavnic job list --json")
def list_jobs(lab: LabOption = None, as_json: AsJson = False) -> None:
    """List the jobs that run, and the last ones that have ended."""
    from opavnic.state.job import JobsState

    found = lab_client(lab).read(JobsState, "/jobs")
    if as_json:
        print_json(found.as_json())
    elif not found.jobs:
        print_line("no job runs, and none has ended lately")
    else:
        rows = [
            [one.number, one.name, one.phase.value, one.error or one.progress, f"{one.seconds:.1f}"]
            for one in found.jobs
        ]
        print_table(("number", "job", "state", "progress", "seconds"), rows)


@app.command(epilog="Example: opavnic job wait 3")
def wait(number: Number, lab: LabOption = None, as_json: AsJson = False) -> None:
    """Wait until a job has ended; exit code 1 if it has failed. Ctrl-C leaves it as it is."""
    from opavnic.base.signals import EXIT_INTERRUPTED, interruptible
    from opavnic.cli.base.jobs import ended
    from opavnic.state.job import JobPhase, JobState

    client = lab_client(lab)
    job = client.read(JobState, f"/jobs/{number}")
    try:
        with interruptible():
            job = ended(client, job)
    except KeyboardInterrupt:
        fail(f"interrupted; {job.name} goes on in the lab", EXIT_INTERRUPTED)
    if as_json:
        print_json(job.as_json())
    elif job.phase is JobPhase.DONE:
        print_line(f"{job.name}: done in {job.seconds:.1f} s")
    if job.phase is not JobPhase.DONE:
        fail(f"{job.name}: {job.error}")


@app.command(epilog="Example: opavnic job cancel 3")
def cancel(number: Number, lab: LabOption = None, as_json: AsJson = False) -> None:
    """Cancel a job that has changed nothing yet; one that has goes on, and the exit code is 1."""
    from opavnic.state.job import JobPhase, JobState

    client = lab_client(lab)
    job = client.cancel_job(client.read(JobState, f"/jobs/{number}"))
    if as_json:
        print_json(job.as_json())
    if job.phase is JobPhase.CANCELLED:
        say(f"{job.name} is cancelled, nothing was changed")
    elif job.has_ended:
        fail(f"{job.name} has ended already: {job.phase.value}")
    else:
        fail(f"{job.name} has changed something already, and goes on", hint=f"see: opavnic job wait {number}")
