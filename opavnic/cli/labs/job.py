"""`opavnic job`: the long operations of a running lab."""

from __future__ import annotations

from typing import Annotated

import typer

from opavnic.cli.base.common import AsJson, LabOption, lab_client
from opavnic.cli.base.group import command_group
from opavnic.cli.base.output import fail, print_json, print_line, print_table, say

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
