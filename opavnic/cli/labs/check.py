"""`opavnic check`: does every host reach every other host of its virtual switches, and no other host?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

import typer

from opavnic.cli.base.common import AsJson, LabOption, time_option
from opavnic.cli.base.output import (
    EXIT_FAILED,
    Form,
    Sheet,
    current_form,
    print_json,
    print_records,
    print_sheets,
    wrong,
)

_FAILURES_SHOWN: Final = 20
_MATRIX: Final = 64
"""VNICs of a virtual switch that a matrix shows."""
_MARKS: Final = {"ipv4": "4", "ipv6": "6", "mtu": "M"}
"""What a cell of the matrix shows where that alone failed."""


def check(
    lab: LabOption = None,
    timeout: Annotated[
        Any,
        time_option(
            "--timeout", low="10ms", high="1m", help="How long an answer may take, of three attempts."
        ),
    ] = "1s",
    everything: Annotated[
        bool, typer.Option("--all", help="Ask all pairs of large virtual switches, too.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", help="Draw the sample of large ones from this number, not from the lab's seed."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that every host reaches every other host of its virtual switches, and no host beyond them.

    From each host to each other: an echo over IPv4, one over IPv6, and one that fills the MTU and may not be
    fragmented. A packet of one byte more must be refused, and no other virtual switch may hear what is sent to all
    hosts. Exit code 1 if anything fails. In the matrix: . reached, 4 no IPv4, 6 no IPv6, M not the whole MTU, X several
    of them, - not asked. Not asked is what has no address in the lab: a virtual machine, the port of a bridge.

    Of a virtual switch with more than 141 VNICs a sample of the pairs is asked, drawn from the seed of the lab: each
    VNIC asks, and is asked, equally often. Beyond 64 VNICs there is a line instead of the matrix.

    \b
    Example:
      opavnic check
      opavnic check --json
    """
    from opavnic.cli.base.common import lab_client
    from opavnic.cli.base.jobs import job_result
    from opavnic.state.reach import ReachState

    options = {"timeout_s": timeout, "everything": everything, "seed": seed}
    found = job_result(lab_client(lab), ReachState, "POST", "/check", options)
    data = found.as_json()
    if as_json:
        print_json(data)
    elif current_form() is Form.CSV:
        print_records(data["pairs"])
    else:
        print_sheets(check_items(data))
    if not found.ok:
        raise typer.Exit(EXIT_FAILED)


def check_items(data: dict[str, Any]) -> Iterator[Sheet | str]:
    """Yield the tables and lines of a check: a matrix for each virtual switch, failures, the verdict.

    Args:  data: the same as --json prints.
    """
    failed = _marks(data["failures"])
    asked = {(one["vesw"], one["from"], one["to"]) for one in data["pairs"]}
    silent = {(one["vesw"], one["host"]) for one in data["not_asked"]}
    vesws: dict[str, list[str]] = {}
    for vnic in data["vnics"]:
        if (vnic["vesw"], vnic["host"]) not in silent:
            vesws.setdefault(vnic["vesw"], []).append(vnic["host"])
    for vesw, hosts in vesws.items():
        if len(hosts) > _MATRIX:
            here = [pair for pair in asked if pair[0] == vesw]
            reached = sum(pair not in failed for pair in here)
            every = len(hosts) * (len(hosts) - 1)
            yield f"{vesw}: {reached} of {len(here)} pairs reached" + (
                f", a sample of {every} with seed {data['seed']}; all with: opavnic check --all"
                if len(here) < every
                else ""
            )
            continue
        rows = []
        for source in hosts:
            cells = "".join(
                failed.get(pair, ".") if (pair := (vesw, source, target)) in asked else "-"
                for target in hosts
            )
            failing = any(cell not in "-." for cell in cells)
            rows.append([source, wrong(cells, failing), cells.count(".")])
        yield Sheet((vesw, "to each, in this order", "reached"), rows)
    failures = data["failures"]
    if failures or data["down"]:
        yield Sheet(
            ("vesw", "from", "to", "what", "failed"),
            [
                (one["vesw"], one["from"], one["to"] or one["address"], one["kind"], wrong(one["what"], True))
                for one in failures[:_FAILURES_SHOWN]
            ]
            + [
                (one["interface"], one["host"], "", "state", wrong(one["state"], True))
                for one in data["down"]
            ],
        )
    if len(failures) > _FAILURES_SHOWN:
        yield f"... and {len(failures) - _FAILURES_SHOWN} more; see: opavnic check --json"
    if data["not_asked"]:
        names = ", ".join(dict.fromkeys(f"{one['host']}.{one['vesw']}" for one in data["not_asked"]))
        yield f"not asked, without an address or alone: {names}"
    what = f"{data['probes']} probes, {data['seconds']:g} s"
    if data["ok"]:
        yield f"lab {data['lab']}: every host reaches all members of its virtual switches, and no others ({what})"
    else:
        yield f"lab {data['lab']}: {len(failures) + len(data['down'])} failures ({what})"


def _marks(failures: Iterable[dict[str, Any]]) -> dict[tuple[str, str, str], str]:
    """Return what the matrix shows of each pair of which an echo failed."""
    kinds: dict[tuple[str, str, str], set[str]] = {}
    for one in failures:
        if one["kind"] in _MARKS:
            kinds.setdefault((one["vesw"], one["from"], one["to"]), set()).add(one["kind"])
    return {pair: _MARKS[next(iter(found))] if len(found) == 1 else "X" for pair, found in kinds.items()}
