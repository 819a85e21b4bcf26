"""What the commands of lnetctl share: the host, and how an answer is printed.

A refusal is printed on stderr as the real tool prints it, with its exit code: the low byte of the negative errno. What
goes wrong before a host is asked (no such lab, host, option or verb) is one line, with 1 or 2 as in all of opavnic.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any, Final, get_type_hints
from urllib.parse import quote

import typer
import yaml

from opavnic.cli.base.common import AsJson, LabOption, lab_client
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
    **settings: Any,
) -> Callable[[Asks], Asks]:
    """Return a decorator that makes a function the command NOUN VERB on a host, with --host and --lab.

    Args:  says: the noun in errors, if it is another. alias: the noun for people, if it is another. prints: whether it
           prints data, so that it has --json, too. settings: of the command in its group.
    """
    name = f"{alias or noun} {verb}"

    def decorate(asks: Asks) -> Asks:
        @functools.wraps(asks)
        def command(host: str | None, lab: str | None, as_json: bool = False, **options: Any) -> None:
            run_command(
                host,
                lab,
                f"{noun}_{verb}",
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
        group.command(verb, **settings)(command)
        return asks

    return decorate


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
