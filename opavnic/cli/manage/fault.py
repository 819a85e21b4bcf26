"""`opavnic fault`: inject and remove faults in the fabric of a running lab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from opavnic.cli.base.common import AsJson, LabOption, fault_words, lab_client
from opavnic.cli.base.group import LateHelpCommand, command_group
from opavnic.cli.base.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from opavnic.state.fabric import FaultsSet

app = command_group("Inject and remove faults in the fabric of a running lab.")


def _print(faults: FaultsSet, as_json: bool) -> None:
    if as_json:
        print_json(faults.as_json())
    elif not faults.faults:
        print_line(f"no fault is set (seed {faults.seed})")
    else:
        rows = [[fault.number, fault.fault, fault.state, fault.seen, fault.hits] for fault in faults.faults]
        print_table(("number", "fault", "state", "seen", "hits"), rows, title=f"seed {faults.seed}")


def _help() -> str:
    from hfi_sim.base.options import options_of
    from hfi_sim.fabric.faults import KINDS, Match
    from hfi_sim.fabric.faults.kinds import FAULT_OPTIONS

    named = [option for option in FAULT_OPTIONS.values() if option.key != "probability"]  # written as 20%
    general, by_kind, matches = (
        ", ".join(f"{option.key}=" for option in options)
        for options in (
            [option for option in named if len(option.kinds) > 1],
            [option for option in named if len(option.kinds) == 1],
            options_of(Match),
        )
    )
    return f"""Inject a fault; others stay as they are.

    Kinds: {", ".join(KINDS)} (the driver of a host ends, with its agent and VNICs, and restarts; on em it is
    the Ethernet Manager). Places: a host, switch or port (h1, sw0, h1:1), a link (h1--sw0), one direction of it
    (h1->sw0), * for all.
    Options: 20%, {general}, and {matches}; by kind {by_kind}.
    """


@app.command(cls=LateHelpCommand.of(_help), epilog="Example: opavnic fault add loss on h1 20% l4=mad for=2s")
def add(
    fault: Annotated[
        list[str], typer.Argument(metavar="KIND on PLACE [OPTION=VALUE ...]", autocompletion=fault_words)
    ],
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Inject a fault; `_help` makes the help of the command."""
    from hfi_sim.fabric.faults import parse_fault
    from opavnic.state.fabric import FaultAdded

    text = " ".join(fault)
    parse_fault(text)
    _print(lab_client(lab).change(FaultAdded, "/faults", {"fault": text}), as_json)


@app.command(epilog="Example: opavnic fault show --json")
def show(lab: LabOption = None, as_json: AsJson = False) -> None:
    """List the faults with their effects so far, and the seed."""
    from opavnic.state.fabric import FaultsSet

    _print(lab_client(lab).read(FaultsSet, "/faults"), as_json)


@app.command(epilog="Example: opavnic fault remove 3")
def remove(
    number: Annotated[int, typer.Argument(help="Number of the fault, from `opavnic fault show`.")],
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Remove one fault and undo its effects on links and nodes."""
    from opavnic.state.fabric import FaultsSet

    _print(lab_client(lab).change(FaultsSet, "/faults/remove", {"number": number}), as_json)


@app.command(epilog="Example: opavnic fault clear")
def clear(lab: LabOption = None, as_json: AsJson = False) -> None:
    """Remove all faults."""
    from opavnic.state.fabric import FaultsSet

    _print(lab_client(lab).change(FaultsSet, "/faults/remove", {"number": None}), as_json)
