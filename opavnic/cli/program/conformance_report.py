"""Output and exit code of a conformance run."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from opavnic.cli.base.output import EXIT_FAILED, print_json, print_line
from opavnic.conformance.result import Result


def report(results: Sequence[Result], as_json: bool) -> None:
    """Print the first differences and a summary of each file; exit with 1 if a case differs."""
    if as_json:
        print_json([result.to_json() for result in results])
    else:
        for result in results:
            for difference in result.differences:
                for line in difference.lines():
                    print_line(line)
            for line in (result.summary(), *result.reasons()):
                print_line(line)
    if not all(result.ok for result in results):
        raise typer.Exit(EXIT_FAILED)
