"""`opavnic exec` and `opavnic shell`: programs on the hosts of a running lab."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from opavnic.cli.base.common import LabOption
from opavnic.cli.base.names import host_names
from opavnic.cli.base.output import EXIT_USAGE, fail, print_line

Host = Annotated[str, typer.Argument(help="A host of the lab.", autocompletion=host_names)]
Umad = Annotated[
    bool | None,
    typer.Option(
        "--umad/--no-umad",
        help="Fail unless the program has the host's umad devices, or do without; default: where possible.",
        show_default=False,
    ),
]
Plain = Annotated[bool, typer.Option("--print", help="Print the equivalent plain command and exit.")]


def exec_command(
    host: Host,
    command: Annotated[
        list[str] | None, typer.Argument(help="The program and its arguments, after --.")
    ] = None,
    lab: LabOption = None,
    plain: Plain = False,
    umad: Umad = None,
) -> None:
    """Run a program on a host of a lab; its exit code is passed on.

    Of a lab on several machines, the host may be on any of them.

    It finds the HFI of the host under /dev/infiniband and /sys/class/infiniband, for libibumad and Debian's ibstat.

    127: the program does not exist; 126: it cannot be run.

    \b
    Example:
      opavnic exec h1 -- ping -c3 10.9.2.2
      opavnic exec h2 --lab two-hosts -- iperf3 -s
      opavnic exec h1 -- ibstat
    """
    if not command:
        fail("exec: which program? Example: opavnic exec h1 -- ping -c3 10.9.2.2", EXIT_USAGE)
    _run(host, command, lab, plain, umad)


def shell(host: Host, lab: LabOption = None, plain: Plain = False, umad: Umad = None) -> None:
    """Open a shell on a host of a lab.

    \b
    Example:
      opavnic shell h1
    """
    _run(host, [os.environ.get("SHELL") or "/bin/sh"], lab, plain, umad)


def _run(host: str, command: list[str], lab: str | None, plain: bool, umad: bool | None) -> None:
    from opavnic.lab.hosts.enter import become, plain_command
    from opavnic.lab.ownership.runtime import running_lab

    directory, journal = running_lab(lab)
    if journal.machine and host not in journal.hosts:
        from opavnic.cli.labs.enter_remote import run_remotely

        if plain:
            fail(f"--print: host {host} is on another machine: its plain command is one of that machine")
        raise typer.Exit(run_remotely(directory.control_socket, host, command, umad))
    if plain:
        print_line(plain_command(journal, host, command))
        return
    become(directory, journal, host, command, devices=umad)


exec_command.context_settings = {"ignore_unknown_options": True}  # type: ignore[attr-defined]
