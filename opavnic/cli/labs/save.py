"""`opavnic save`: the running state of a lab as a lab file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opavnic.cli.base.common import LabOption, lab_client
from opavnic.cli.base.jobs import job_result
from opavnic.cli.base.output import print_text, say
from opavnic.cli.labs.init import write_new


def save(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to write it; default: stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    lab: LabOption = None,
) -> None:
    """Write the state of a running lab as a lab file that `opavnic up` reads back to the same state.

    The file says what the lab was started with, and what has changed since: hosts, links, faults, virtual switches,
    members, MTUs, the MAC policy. What a lab file cannot say is named on stderr: MAC and IP addresses, MTUs, names,
    routes, interfaces and sysctls that hosts have changed themselves, as far as their namespaces are those of the lab.

    \b
    Example:
      opavnic save now.yaml
      opavnic down && opavnic up now.yaml -d
    """
    from opavnic.state.lab import SavedLab

    saved = job_result(lab_client(lab), SavedLab, "GET", "/save")
    if file is None:
        print_text(saved.lab_file)
    else:
        write_new(file, saved.lab_file, force=force)
        say(f"written to {file}")
    for what in saved.left_out:
        say(f"left out, a lab file cannot hold it: {what}")
