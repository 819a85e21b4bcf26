"""`opavnic explain`: what the name of a drop or an event means, and what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from opavnic.cli.base.common import AsJson
from opavnic.cli.base.output import EXIT_USAGE, fail, print_json, print_line


def explain(
    name: Annotated[str, typer.Argument(help="A drop or an event, such as vnic_no_vesw.")],
    as_json: AsJson = False,
) -> None:
    """Say what the name of a drop or of an event means, when it is harmless, and what to do.

    \b
    Example:
      opavnic explain vnic_no_vesw
    """
    from hfi_sim.base.text import nearest
    from opavnic.state.advice import advice

    rows = advice()
    if name not in rows:
        fail(f'explain: no drop or event "{name}" ({nearest(name, rows)})', EXIT_USAGE)
    row = rows[name]
    if as_json:
        print_json({"name": name, "what": row.what, "harmless": row.harmless, "do": row.do})
        return
    print_line(f"{name}: {row.what}")
    print_line(f"Harmless: {row.harmless or 'never'}.")
    print_line(f"To do: {row.do}.")
