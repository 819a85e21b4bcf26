"""The program `opavnic`: finds commands, starts them, and turns every failure into one line and an exit code.

A command's module is imported when the command is called, so that `opavnic exec` starts as fast as Python.
Other packages add commands through the entry point group "opavnic.cli": name -> typer.Typer, or a function.
"""

from __future__ import annotations

import errno
import importlib
import logging
import os
import re
import stat
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from hfi_sim.base.entry_points import entry_points_of
from hfi_sim.base.errors import HfiSimError
from opavnic.base.null_device_file import NullDeviceError, is_of_null, open_standard_streams
from opavnic.base.signals import EXIT_INTERRUPTED, ReadersGoneError
from opavnic.cli.base.forms import form_asked_for, offer_forms, with_forms
from opavnic.cli.base.group import RENAMED, CommandGroup, near
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, complain, printing, say

ENTRY_POINTS: Final = "opavnic.cli"
_NO_CHOICE: Final = re.compile(r"'([^']*)' is not one of (.*)", re.DOTALL)
"""What click says of an unknown choice."""
_QUOTED: Final = re.compile(r"'([^']*)'")
COMPLETE: Final = "_OPAVNIC_COMPLETE"


COMMANDS: Final = {
    "demo": ("labs.demo:demo", "Two hosts on two virtual switches: ping, TCP, a summary."),
    "init": ("labs.init:init", "Write a lab file to start from."),
    "validate": ("labs.lifecycle:validate", "Check a lab file; needs no privilege."),
    "schema": ("labs.init:schema", "Print the JSON schema of lab files or EM files."),
    "up": ("labs.lifecycle:up", "Start a lab, in the background with -d."),
    "node": ("labs.cluster:node", "Join a lab that runs on several machines."),
    "down": ("labs.lifecycle:down", "End a running lab and remove every trace of it."),
    "prune": ("labs.lifecycle:prune", "Remove what killed labs left behind."),
    "apply": ("labs.change:apply", "Do what differs between a lab file and a running lab."),
    "host": ("labs.change:host_app", "Let hosts of a running lab come and go."),
    "vesw": ("labs.change:vesw_app", "Virtual switches of a running lab, and members."),
    "link": ("labs.change:link_app", "Let links of a running lab come and go."),
    "job": ("labs.inspect:app", "Watch and cancel what takes long in a running lab."),
    "save": ("labs.init:save", "Write the state of a running lab as a lab file."),
    "ps": ("labs.inspect:ps", "List running labs."),
    "labs": ("labs.inspect:ps", "Same as ps."),
    "status": ("view.status:status", "Show a running lab: hosts, VNICs, links, drops."),
    "explain": ("view.explain:explain", "Say what a drop or an event means, and what to do."),
    "top": ("top.command:top", "Show the traffic of a running lab, live."),
    "web": ("view.metrics:web", "Show a running lab in a browser."),
    "metrics": ("view.metrics:metrics", "Running labs as Prometheus metrics."),
    "logs": ("labs.inspect:logs", "Show what a lab has logged; -f follows it."),
    "check": ("labs.check:check", "Check that every host reaches every other one."),
    "exec": ("labs.enter:exec_command", "Run a program on a host of a lab."),
    "shell": ("labs.enter:shell", "Open a shell on a host of a lab."),
    "ethtool": ("view.ethtool:ethtool", "Show a VNIC as ethtool shows one of the driver."),
    "topo": ("view.topo:topo", "Show a fabric: cables, routes, drawings."),
    "cluster": ("labs.cluster:app", "Fabrics over several machines: credentials."),
    "fault": ("manage.fault:app", "Inject and remove faults in a running lab."),
    "capture": ("packets.capture:capture", "Show the packets on the links, or write them."),
    "decode": ("packets.decode:decode", "Print a 16B packet field by field."),
    "draw": ("packets.decode:draw", "Draw the packets of a capture as a page."),
    "em": ("manage.em:app", "The Ethernet Manager: apply, show, verify; or run it alone."),
    "fm": ("manage.fm:app", "Settings for a real fabric manager."),
    "mad": ("manage.mad:app", "Send management datagrams; record and replay them."),
    "conformance": ("program.conformance:app", "Run recorded test vectors."),
    "kernel": ("program.kernel:app", "Linux's own opa_vnic, built for user mode."),
    "bench": ("program.bench:app", "Measure, side by side with comparable tools."),
    "install-dissectors": (
        "program.dissectors:install_dissectors",
        "Install dissectors for Wireshark and tshark.",
    ),
    "scapy-layers": ("program.dissectors:scapy_layers", "Write layers for scapy, as one file."),
    "completion": ("program.man:completion", "Print a script that completes commands."),
    "man": ("program.man:man", "Write the manual pages."),
}
"""By name: what runs a command, a typer.Typer or a function below `opavnic.cli`, imported when called; and its help."""


class OpavnicGroup(CommandGroup):
    """The top level: the commands above, and those of installed packages."""

    _listing = False

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the names of all commands."""
        return [
            *COMMANDS,
            *sorted(point.name for point in entry_points_of(ENTRY_POINTS) if point.name not in COMMANDS),
        ]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        """Return a command: imported or, while the help lists commands, only its name and help text."""
        if cmd_name in COMMANDS:
            target, text = COMMANDS[cmd_name]
            if self._listing:
                return TyperCommand(cmd_name, help=text)
            module, _, attribute = target.partition(":")
            return _command(cmd_name, getattr(importlib.import_module(f"opavnic.cli.{module}"), attribute))
        for point in entry_points_of(ENTRY_POINTS):
            if point.name == cmd_name:
                return _command(cmd_name, point.load())
        return None

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Print the help, without importing the commands it lists."""
        self._listing = True
        super().format_help(ctx, formatter)


@cache
def _command(name: str, target: typer.Typer | Callable[..., Any]) -> Any:
    """Return what runs a command. A group asks twice: whether there is one, and for it; `lnetctl` has 58 below it."""
    if isinstance(target, typer.Typer):
        app = target
        offer_forms(app)
    else:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        # everything after a program's name belongs to that program: `opavnic exec h1 ping -c3 10.9.2.2`
        settings = getattr(target, "context_settings", None)
        cls = getattr(target, "command_class", TyperCommand)
        app.command(name, cls=cls, context_settings=settings)(with_forms(target))
    command = typer.main.get_command(app)
    command.name = name
    return command


app = typer.Typer(
    name="opavnic",
    cls=OpavnicGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    """Print the version, and in a second line what carries frames here, and why."""
    if wanted:
        from importlib.metadata import version

        from opavnic.datapath.selection import why_not_native

        reason = why_not_native()
        print(f"opavnic {version('opavnic')}")
        print(f"datapath python: {reason}" if reason else "datapath native")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version, and what carries frames here.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log to stderr.")] = False,
) -> None:
    """Omni-Path VNIC on an ordinary Linux host: real programs over a simulated 16B fabric.

    \b
    Example:
      opavnic demo
      opavnic up examples/two-hosts.yaml -d
      opavnic exec h1 -- ping -c3 10.9.2.2
      opavnic down
    """
    if verbose:
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code: 0 success, 1 failure, 2 wrong usage or input.

    130: interrupted before it was done. A command that runs until it is interrupted returns 0.
    """
    try:
        open_standard_streams()
    except HfiSimError as error:
        say(f"opavnic: {error}")
        return EXIT_FAILED
    words = list(sys.argv[1:] if arguments is None else arguments)
    with printing(form_asked_for(words)):
        return _run(words)


def explain(words: list[str], error: Exception) -> int:
    """Print why a command has failed, and return the exit code, as `main` does."""
    with printing(form_asked_for(words)):
        return _explain(error)


def _run(words: list[str]) -> int:
    command = typer.main.get_command(app)
    if COMPLETE in os.environ:  # set by a script of `opavnic completion`
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    try:
        code = command.main(args=words, prog_name="opavnic", standalone_mode=False)
    except typer.Abort:  # what typer makes of KeyboardInterrupt
        say("opavnic: interrupted")
        return EXIT_INTERRUPTED
    except (BrokenPipeError, ReadersGoneError):
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # the reader has gone: the interpreter would report an error when it flushes stdout at exit
        return EXIT_FAILED
    except Exception as error:
        return _explain(error)
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> int:
    """Print what went wrong in one line, or one line for each mistake in a file, and return the exit code.

    A command group that is called without a command prints its help.
    """
    if hasattr(error, "format_message"):  # a usage error of the command line
        context = getattr(error, "ctx", None)
        if (
            context is not None and type(error).__name__ == "NoArgsIsHelpError"
        ):  # typer does not export the class
            print(context.get_help(), file=sys.stderr)
            return EXIT_USAGE
        message = " ".join(error.format_message().split()).rstrip(".").replace(": Value error, ", ": ")
        if message:
            code = int(getattr(error, "exit_code", EXIT_USAGE))
            complain(message, code, hint=_usage_hint(error, context))
            return code
        return EXIT_USAGE
    from hfi_sim.base.errors import InputError
    from opavnic.base.packages import missing_extra
    from opavnic.lab.file.errors import ConfigError

    if isinstance(error, ModuleNotFoundError) and (line := missing_extra(error)):
        complain(line, EXIT_FAILED)
        return EXIT_FAILED
    if isinstance(error, ConfigError):
        complain("\n".join(error.problems), EXIT_USAGE, problems=error.problems)
        return EXIT_USAGE
    if isinstance(error, HfiSimError):
        code = getattr(error, "exit_code", EXIT_USAGE if isinstance(error, InputError) else EXIT_FAILED)
        complain(str(error), code, hint=getattr(error, "hint", ""))
        return code
    if isinstance(error, OSError) and is_of_null(error):  # opened by subprocess
        complain(str(NullDeviceError(error)), EXIT_FAILED)
        return EXIT_FAILED
    if isinstance(error, OSError) and error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
    ):  # not a bug: stdout or /run is full
        complain(f"cannot write: {error.strerror}", EXIT_FAILED)
        return EXIT_FAILED
    text = " ".join(str(error).split())
    complain(f"internal error, {type(error).__name__}: {text}{_keep(error)}", EXIT_FAILED)
    return EXIT_FAILED


def _usage_hint(error: Any, context: Any) -> str:
    if context is None:
        return ""
    if option := getattr(error, "option_name", ""):
        new = RENAMED.get((context.command_path.removeprefix("opavnic "), option))
        if new is not None:
            return f"it is now {new}"
    if match := _NO_CHOICE.search(error.format_message()):
        meant = near(match[1], _QUOTED.findall(match[2]))
        if meant:
            return f"did you mean: {meant}"
    return f"see: {context.command_path} --help"


def _keep(error: Exception) -> str:
    """Write the traceback of a bug to a file and return a note that names the file."""
    from opavnic.lab.ownership.runtime import runtime_root

    text = "".join(traceback.format_exception(error))
    file = runtime_root().with_name(runtime_root().name + "-error.log")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(file, flags, 0o600), "a", encoding="utf-8") as log:
            status = os.fstat(log.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return ""  # another user created the file
            log.write(text)
    except OSError:
        return ""
    return f" (traceback in {file})"


if __name__ == "__main__":
    sys.exit(main())
