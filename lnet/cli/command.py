"""What the commands of lnetctl share: the host, and how an answer is printed.

A refusal is printed on stderr as the real tool prints it, with its exit code: the low byte of the negative errno. What
goes wrong before a host is asked (no such lab, host, option or verb) is one line, with 1 or 2 as in all of opavnic.
What the real one can do and a lab has nothing for is said in one line, and ends with 0.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, get_type_hints
from urllib.parse import quote

import typer
import yaml

from lnet.settings.settings import ALIASES
from opavnic.cli.base.common import AsJson, LabOption, lab_client
from opavnic.cli.base.group import CommandGroup
from opavnic.cli.base.output import EXIT_USAGE, fail, print_json, print_text, say

_COMMAND_S: Final = 60.0
"""Timeout of a command on a host, in seconds."""
ENV_HOST: Final = "OPAVNIC_HOST"
"""Set by `opavnic exec`, so that --host is implied inside it."""

Host = Annotated[
    str | None,
    typer.Option("--host", help="The host; implied inside `opavnic exec HOST`.", envvar=ENV_HOST),
]
Net = Annotated[str | None, typer.Option("--net", help="A network: o2ib0.")]
Asks = Callable[..., dict[str, Any]]
"""The body of a command: takes its options, and returns the arguments for the host."""


def on_host(
    group: typer.Typer,
    verb: str,
    noun: str,
    *,
    says: str = "",
    alias: str = "",
    prints: bool = False,
    is_word: bool = False,
    **settings: Any,
) -> Callable[[Asks], Asks]:
    """Return a decorator that makes a function the command NOUN VERB on a host, with --host and --lab.

    Args:  says: the noun in errors, if it is another. alias: the noun for people, if it is another. prints: whether it
           prints data, so that it has --json, too. is_word: whether the noun alone is the command; the verb is that of
           errors. settings: of the command in its group.
    """
    name = noun if is_word else f"{alias or noun} {verb}"

    def decorate(asks: Asks) -> Asks:
        @functools.wraps(asks)
        def command(host: str | None, lab: str | None, as_json: bool = False, **options: Any) -> None:
            run_command(
                host,
                lab,
                noun if is_word else f"{noun}_{verb}",
                verb,
                says or noun,
                as_json=as_json,
                name=name,
                **asks(**options),
            )

        shared = {"host": Host, "lab": LabOption} | ({"as_json": AsJson} if prints else {})
        hints = get_type_hints(asks, include_extras=True) | shared
        own = list(inspect.signature(asks).parameters.values())
        more = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=False if name == "as_json" else None
            )
            for name in shared
        ]
        command.__doc__ = (inspect.getdoc(asks) or "").replace(f"lnetctl {noun} {verb}", f"lnetctl {name}")
        command.__annotations__ = hints
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY)
                for one in [*own, *more]
            ]
        )
        group.command(noun if is_word else verb, **settings)(command)
        return asks

    return decorate


def without_options(group: typer.Typer, verb: str, noun: str, text: str, **settings: Any) -> None:
    """Make the command NOUN VERB on a host, which has no options of its own. Args: settings: those of `on_host`."""

    def asks() -> dict[str, Any]:
        return {}

    asks.__doc__ = f"{text}\n\n\b\nExample:\n  opavnic lnetctl {noun} {verb} --host a\n"
    on_host(group, verb, noun, **settings)(asks)


def run_command(
    host: str | None,
    lab: str | None,
    command: str,
    verb: str,
    noun: str,
    *,
    as_json: bool = False,
    **more: Any,
) -> None:
    """Run a command on a host and print its output. Args: more: as for `ask`."""
    print_answer(ask(host, lab, command, verb, noun, **more), as_json)


def ask(
    host: str | None,
    lab: str | None,
    command: str,
    verb: str,
    noun: str,
    *,
    name: str,
    patience_s: float = _COMMAND_S,
    **args: Any,
) -> dict[str, Any]:
    """Run a command on a host; return its answer. Args: name: that of the command, for people."""
    if not host:
        fail(f"{name}: no host; give --host HOST, or run it with: opavnic exec HOST --", EXIT_USAGE)
    body = {"verb": verb, "noun": noun, "args": {k: v for k, v in args.items() if v is not None}}
    answer: dict[str, Any] = lab_client(lab, patience_s).post(f"/lnet/{quote(host, safe='')}/{command}", body)
    return answer


def print_answer(answer: dict[str, Any], as_json: bool = False) -> None:
    """Print the output on stdout and errors on stderr, so that no error gets into a file of `export`."""
    output, errors = answer["output"], answer["errors"]
    if as_json and (output or not errors):
        print_json(yaml.safe_load(output) or {})
    elif output:
        print_text(output)
    for line in [json.dumps(yaml.safe_load(errors))] if as_json and errors else errors.splitlines():
        say(line)
    if answer["exit"]:
        raise typer.Exit(answer["exit"])


NO_ROUTERS: Final = "there are no routers; all hosts of a lab are on one fabric and reach each other directly"
INSTEAD: Final[Mapping[str, str]] = {
    "udsp": "the choice of a route follows `bonding` and `weighted` in the lab file",
    "debug": "`opavnic logs` has what LNet logs; `lnetctl net show -v 2` and `peer show -v 2` have what recovers",
    "fault": "`opavnic fault` injects faults into links, switches and hosts",
    "setup-mrrouting": "hosts of a lab need no Linux routes for LNet",
    "setup-sysctl": "LNet of a lab does not use the kernel's sockets",
    "service-id": "the service of o2iblnd here is number 987 of the reliable transport",
    "cpt-of-nid": "a node has one thread, CPT 0",
    **dict.fromkeys(("route add", "route del", "route set", "routing add", "routing del"), NO_ROUTERS),
    **dict.fromkeys(
        ("set routing", "set tiny_buffers", "set small_buffers", "set large_buffers"), NO_ROUTERS
    ),
    "--conns-per-peer": "there is one connection for each route; more HFIs make more routes",
    "--tos": "the virtual lane follows the service level of the fabric",
    "--lnd-timeout": "it follows from transaction_timeout and retry_count; with o2ibs it is `timeout` in the lab file",
    "--net": "give --nid or --all",
}
"""By command, or by option: what is there instead."""


def note(what: str, instead: str) -> None:
    """Say that something is not modelled."""
    say(f"opavnic: lnetctl {what}: not modelled, without effect; {instead}")


def note_options(command: str, **given: object) -> bool:
    """Say which options that are given are not modelled; return whether there are any."""
    found = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    for option in found:
        note(f"{command} {option}", INSTEAD[option])
    return bool(found)


class LnetctlGroup(CommandGroup):
    """A group of commands that knows those of the real tool that a lab has nothing for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command, also a setting by another name; one that is not modelled ends the program."""
        if ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if args[0] == "help":
            print_text(ctx.get_help() + "\n")
            ctx.exit()
        words = [*ctx.command_path.split()[2:], ALIASES.get(args[0], args[0])]
        instead = INSTEAD.get(" ".join(words))
        if instead is not None:
            note(" ".join(words), instead)
            raise typer.Exit
        return super().resolve_command(ctx, [words[-1], *args[1:]])
