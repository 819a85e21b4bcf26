"""The options that select the form of output, `--json` and `-o`: the same for every command that prints data.

A command that prints data has a parameter `as_json: AsJson`. Where the program finds commands, `offer_forms` gives each
of them `-o` beside it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final, get_type_hints

import typer

from opavnic.cli.base.output import Form, printing

PARAMETER: Final = "as_json"
"""The parameter that marks a command as one that prints data."""
_OUTPUT: Final = "output_form"
_Output = Annotated[
    Form | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FORM",
        help="Form of the output: table (default), json, csv.",
        show_default=False,
    ),
]

Function = Callable[..., Any]


def offer_forms(target: typer.Typer) -> None:
    """Give the commands of an app, and of the groups in it, the option -o if they print data."""
    for command in target.registered_commands:
        if command.callback is not None:
            command.callback = with_forms(command.callback)
    for group in target.registered_groups:
        if group.typer_instance is not None:
            offer_forms(group.typer_instance)


def with_forms(function: Function) -> Function:
    """Return a command with the option -o, if it prints data and has none yet."""
    signature = inspect.signature(function)
    if PARAMETER not in signature.parameters or _OUTPUT in signature.parameters:
        return function

    @functools.wraps(function)
    def run(*args: Any, **values: Any) -> Any:
        form = _chosen(values.pop(_OUTPUT), as_json=values[PARAMETER])
        with printing(form):
            return function(*args, **{**values, PARAMETER: form is Form.JSON})

    option = inspect.Parameter(_OUTPUT, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Output)
    hints = get_type_hints(function, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints.get(name, parameter.annotation))
        for name, parameter in signature.parameters.items()
    ]
    run.__signature__ = signature.replace(parameters=[*parameters, option])  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, _OUTPUT: _Output}
    return run


def _chosen(output: Form | None, *, as_json: bool) -> Form:
    if output not in (None, Form.JSON) and as_json:
        raise typer.BadParameter(f"-o {output} and --json contradict each other", param_hint="-o")
    return Form.JSON if as_json else output or Form.TABLE


def form_asked_for(arguments: Sequence[str]) -> Form:
    """Return the form that a command line asks for, for errors in the command line itself."""
    words = iter(_before_double_dash(arguments))
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--json":
            return Form.JSON
        if name in ("-o", "--output"):
            value = value if equals else next(words, "")
        elif word.startswith("-o"):
            value = word[2:]
        else:
            continue
        if value == Form.JSON:
            return Form.JSON
    return Form.TABLE


def _before_double_dash(arguments: Sequence[str]) -> Iterator[str]:
    for word in arguments:
        if word == "--":
            return
        yield word
