"""`opavnic exec` and `opavnic shell`: programs on the hosts of a running lab, on one or on many."""

from __future__ import annotations

import os
import selectors
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from opavnic.base.null_device_file import open_null
from opavnic.cli.base.common import LabOption, host_names
from opavnic.cli.base.output import EXIT_USAGE, fail, print_line
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
        from hfi_sim.base.text import unknown_name
        from opavnic.cli.labs.enter_remote import run_remotely
        from opavnic.lab.file.errors import LabInputError

        if (machine := journal.elsewhere.get(host)) is None:
            raise LabInputError(unknown_name("host", host, [*journal.hosts, *journal.elsewhere]))
        if plain:
            fail(f"--print: host {host} is on {machine}: its plain command is one of that machine")
        raise typer.Exit(run_remotely(directory.machine_socket(machine), host, command, umad))
    if plain:
        print_line(plain_command(journal, host, command))
        return
    become(directory, journal, host, command, devices=umad)


exec_command.context_settings = {"ignore_unknown_options": True}  # type: ignore[attr-defined]


_AT_ONCE: Final = 64
"""Programs that run at the same time."""
_PIECE: Final = 64 << 10
_SIGNALLED: Final = 128
"""Added to the number of the signal that has ended a program, as a shell does."""


@dataclass(slots=True)
class _Stream:
    """What the program of one host writes to one of its streams."""

    host: str
    target: int
    """Descriptor of this process that gets it."""
    rest: bytes = b""
    """The beginning of a line."""

    def take(self, data: bytes) -> None:
        """Write whole lines, each behind the name of the host; the last one at the end, `data` being empty then."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        if not data and self.rest:
            lines.append(self.rest)
        text = b"".join(b"%s: %s\n" % (self.host.encode(), line) for line in lines)
        while text:
            text = text[os.write(self.target, text) :]


def one_process_each(hosts: Sequence[str]) -> str | int:
    """Return in a new process for each host, with its name; in this process return once all have ended.

    Each of them has an empty standard input, and what it writes appears line by line behind the name of its host. This
    process gets the largest of their exit codes.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    waiting = deque(hosts)
    running: dict[str, tuple[int, int]] = {}
    """By host, the process and how many of its streams are open."""
    largest = 0
    with selectors.DefaultSelector() as selector:
        while waiting or running:
            while waiting and len(running) < _AT_ONCE:
                host = waiting.popleft()
                pid = _start(host, selector)
                if pid == 0:
                    return host
                running[host] = pid, 2
            for key, _ in selector.select():
                stream: _Stream = key.data
                data = os.read(key.fd, _PIECE)
                stream.take(data)
                if data:
                    continue
                selector.unregister(key.fd)
                os.close(key.fd)
                pid, streams = running.pop(stream.host)
                if streams > 1:
                    running[stream.host] = pid, streams - 1
                else:
                    largest = max(largest, _exit_code(pid))
    return largest


def _start(host: str, selector: selectors.BaseSelector) -> int:
    """Return 0 in a new process whose output this one reads, and its number in this one."""
    pipes = [os.pipe(), os.pipe()]
    empty = open_null(os.O_RDONLY)
    pid = os.fork()
    if pid == 0:
        for number, fd in enumerate((empty, pipes[0][1], pipes[1][1])):
            os.dup2(fd, number)
        return 0
    os.close(empty)
    for target, (reading, writing) in enumerate(pipes, start=1):
        os.close(writing)
        selector.register(reading, selectors.EVENT_READ, _Stream(host, target))
    return pid


def _exit_code(pid: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else _SIGNALLED - code
