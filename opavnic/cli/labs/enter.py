"""`opavnic exec` and `opavnic shell`: programs on the hosts of a running lab."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from opavnic.cli.base.common import LabOption, host_names
from opavnic.cli.base.output import EXIT_USAGE, fail, print_line
from opavnic.cli.labs.enter_many import one_process_each
from vema.em.desired.ranges import spread_name

if TYPE_CHECKING:
    from opavnic.lab.ownership.runtime import Journal, LabDir

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
    host: Annotated[
        str, typer.Argument(help="A host of the lab, or several: h[1-16].", autocompletion=host_names)
    ],
    command: Annotated[
        list[str] | None, typer.Argument(help="The program and its arguments, after --.")
    ] = None,
    lab: LabOption = None,
    plain: Plain = False,
    umad: Umad = None,
    rsh: Annotated[
        bool, typer.Option("--rsh", help="Give the words to a shell of the host, as rsh and ssh do.")
    ] = False,
) -> None:
    """Run a program on a host of a lab; its exit code is passed on.

    Of a lab on several machines, the host may be on any of them.

    On several hosts it runs at the same time, without input. Each line that it prints appears behind the name of its
    host, and the largest exit code is passed on.

    It finds the HFI of the host under /dev/infiniband and /sys/class/infiniband, for libibumad and Debian's ibstat.

    127: the program does not exist; 126: it cannot be run.

    \b
    Example:
      opavnic exec h1 -- ping -c3 10.9.2.2
      opavnic exec h2 --lab two-hosts -- iperf3 -s
      opavnic exec h1 -- ibstat
      opavnic exec 'h[1-16]' -- ip -brief address
      opavnic exec --rsh h1 'hostname; uptime'
    """
    if not command:
        fail("exec: which program? Example: opavnic exec h1 -- ping -c3 10.9.2.2", EXIT_USAGE)
    if rsh:
        command = ["/bin/sh", "-c", " ".join(command)]
    try:
        hosts = spread_name(host)
    except ValueError as error:
        fail(f"exec: {error}", EXIT_USAGE)
    _run(hosts, command, lab, plain, umad)


def shell(host: Host, lab: LabOption = None, plain: Plain = False, umad: Umad = None) -> None:
    """Open a shell on a host of a lab.

    \b
    Example:
      opavnic shell h1
    """
    _run([host], [os.environ.get("SHELL") or "/bin/sh"], lab, plain, umad)


def _run(hosts: list[str], command: list[str], lab: str | None, plain: bool, umad: bool | None) -> None:
    from opavnic.lab.hosts.enter import host_namespace
    from opavnic.lab.ownership.runtime import running_lab

    directory, journal = running_lab(lab)
    if len(hosts) == 1 or plain:
        for host in hosts:
            _enter(directory, journal, host, command, plain, umad)
        return
    for host in hosts:
        if not journal.machine or host in journal.hosts:
            host_namespace(journal, host)  # a mistake in one name is said before anything runs
    result = one_process_each(hosts)
    if isinstance(result, int):
        raise typer.Exit(result)
    _enter(directory, journal, result, command, plain, umad)


def _enter(
    directory: LabDir, journal: Journal, host: str, command: list[str], plain: bool, umad: bool | None
) -> None:
    from opavnic.lab.hosts.enter import become, plain_command

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
