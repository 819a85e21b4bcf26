"""`opavnic status`: a running lab, once or again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final

import typer

from hfi_sim.base.text import counted
from opavnic.base.signals import followed
from opavnic.cli.base.common import AsJson, LabOption, lab_client, time_option
from opavnic.cli.base.group import OptionalValueCommand
from opavnic.cli.base.output import (
    Form,
    Sheet,
    current_form,
    is_screen,
    lid_text,
    print_json,
    print_sheets,
    say,
    wrong,
)
from opavnic.state.em import AddressMoves
from opavnic.state.lab import EngineStatus, LabState, LinkStatus

_VNICS_SHOWN: Final = 16
_LINKS_SHOWN: Final = 8
_DROPS_SHOWN: Final = 8
_DRIFT_SHOWN: Final = 8
"""Rows that a table has as long as it lists everything: all three with their headers fit a terminal of 24 lines nearly.
A longer one lists what is wrong, and the rest is one line; drops are summed up by reason."""
_ALL: Final = "see: opavnic status --all"


def status(
    lab: LabOption = None,
    counters: Annotated[
        bool, typer.Option("--counters", help="Also show the counters of every element.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("-a", "--all", help="List everything, however long the tables become.")
    ] = False,
    watch: Annotated[
        Any,
        time_option(
            "-w",
            "--watch",
            low="100ms",
            high="24h",
            help="Show it again after each TIME, until Ctrl-C; -w alone: 2s.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a running lab: its hosts, VNICs as configured by the Ethernet Manager, links, and what was dropped where.

    What is wrong is red. Of a large lab, VNICs and links that are up and drop nothing are one line; --all lists them,
    and so do -o csv and --json. With -w, a terminal is updated in place (q ends it); elsewhere the status is printed
    again where it has changed.

    \b
    Example:
      opavnic status
      opavnic status --all
      opavnic status -w 5s
      opavnic status --counters --json
    """
    client = lab_client(lab)

    def ask() -> LabState:
        return client.read(LabState, "/status?drift=1&counters=1" if counters else "/status?drift=1")

    if watch is None:
        _show(ask(), as_json, whole)
        return
    with suppress(KeyboardInterrupt), followed():
        if current_form() is Form.TABLE and is_screen():
            from opavnic.cli.base.full_screen import watch_status

            watch_status(ask, partial(status_items, whole=whole), watch)
            return
        before: LabState | None = None
        while True:
            now = ask()
            still = now.model_copy(update={"uptime_s": 0.0})
            if still != before:
                _show(now, as_json, whole)
                sys.stdout.flush()
            before = still
            time.sleep(watch)


status.command_class = OptionalValueCommand.of("2s", "-w", "--watch")  # type: ignore[attr-defined]


def _show(state: LabState, as_json: bool, whole: bool) -> None:
    if as_json:
        print_json(state.as_json())
        return
    print_sheets(status_items(state, whole=whole or current_form() is Form.CSV))
    if state.balance:
        said = ", ".join(f"{name} {count:+}" for name, count in state.balance.items())
        say(f"packets not accounted for (a bug): {said}")


def status_items(state: LabState, *, whole: bool = False) -> Iterator[Sheet | str]:
    """Yield the lines and tables of a status.

    Args:  whole: list everything, in place of what is wrong alone, where a table becomes long.
    """
    yield from vnic_items(state, whole=whole)
    yield from _machine_items(state)
    yield from _link_items(state.links, whole)
    yield from _drop_items(state.drops, whole)
    yield from _move_items(state.vesws, whole)
    yield from _drift_items(state)
    yield from state.hints
    if state.apps:
        rows = [row for app in state.apps for row in _rows(f"{app.kind} on {app.host}", app.said)]
        yield Sheet(("app", "what", "value"), rows)
    if state.parts:
        rows = [row for name, values in state.parts.items() for row in _rows(name, values)]
        yield Sheet(("part", "what", "value"), rows)
    if state.counters:
        yield Sheet(("element", "counter", "value"), list(_counter_rows(state.counters)), title="counters")
        yield "netdev: the kernel's own figures; tx_dropped: its queue was full, or had no"
        yield "carrier yet; no VNIC saw it"


def _machine_items(state: LabState) -> Iterator[str]:
    """Yield which machines there are, and which is the slowest."""
    if state.cluster is None:
        return
    shown = [
        name if name in state.cluster.there else wrong(f"{name} (away)", True)
        for name in state.cluster.placed
    ]
    yield f"machines: {', '.join(map(str, shown))}"
    if (slowest := state.cluster.slowest) is not None:
        yield f"slowest machine: {slowest.machine}, at {slowest.pressure:.0%} of a limit: {'; '.join(slowest.why)}"


def _drift_items(state: LabState) -> Iterator[str]:
    """Yield where hosts are not what the lab file says, and what of it waits."""
    drift = [f"{host.name}: {line}" for host in state.hosts for line in host.drift]
    if drift:
        yield f"hosts that are not what the lab file says ({counted(len(drift), 'line')}); opavnic apply FILE ends it"
    waiting = [f"{host.name}: {line}" for host in state.hosts for line in host.waiting]
    for lines, more in ((drift, "more"), (waiting, "more that wait")):
        yield from lines[:_DRIFT_SHOWN]
        if len(lines) > _DRIFT_SHOWN:
            yield f"and {len(lines) - _DRIFT_SHOWN} {more}: opavnic status --json"


def _link_items(links: list[LinkStatus], whole: bool) -> Iterator[Sheet | str]:
    def is_wrong(link: LinkStatus) -> bool:
        return not link.is_up or bool(link.drops)

    fold = not whole and len(links) > _LINKS_SHOWN
    listed = [link for link in links if is_wrong(link)] if fold else links
    rows = [
        [
            link.name,
            wrong(link.state, not link.is_up),
            link.packets_forth,
            link.packets_back,
            wrong(link.drops, bool(link.drops)),
        ]
        for link in listed
    ]
    if rows or not fold:
        yield Sheet(("link", "state", "packets ->", "packets <-", "drops"), rows)
    if fold and len(listed) < len(links):
        quiet = [link for link in links if not is_wrong(link)]
        packets = sum(link.packets_forth + link.packets_back for link in quiet)
        yield f"{counted(len(quiet), 'link')} up without drops, {counted(packets, 'packet')}; {_ALL}"


def _move_items(vesws: Sequence[AddressMoves], whole: bool) -> Iterator[Sheet | str]:
    """Yield how often addresses have moved between members, where they have, and those that are held."""
    rows = [(vesw.name, vesw.moves, vesw.holds) for vesw in vesws if vesw.moves or whole]
    if rows:
        yield Sheet(("vesw", "MACs moved", "held"), rows)
    yield from (line for vesw in vesws for line in vesw.held_lines)


def _drop_items(drops: dict[str, dict[str, int]], whole: bool) -> Iterator[Sheet | str]:
    rows = [
        (name, reason, count) for name, reasons in drops.items() for reason, count in reasons.items() if count
    ]
    if not rows:
        yield "nothing was dropped"
        return
    rows.sort(key=lambda row: -row[2])
    summed = not whole and len(rows) > _DROPS_SHOWN
    shown = list(_by_reason(rows)) if summed else rows
    yield Sheet(("dropped at", "reason", "packets"), [(*row[:2], wrong(row[2], True)) for row in shown])
    if summed:
        yield f"at {len({name for name, _, _ in rows})} places in all; {_ALL}"
    yield f"what that means: opavnic explain {shown[0][1]}"


def _by_reason(rows: list[tuple[str, str, int]]) -> Iterator[tuple[str, str, int]]:
    """Yield a row for each reason, the largest sum first, from rows of which the largest come first."""
    reasons: dict[str, list[tuple[str, str, int]]] = {}
    for row in rows:
        reasons.setdefault(row[1], []).append(row)
    for reason, here in sorted(reasons.items(), key=lambda item: -sum(row[2] for row in item[1])):
        others = f" and {len(here) - 1} more" if len(here) > 1 else ""
        yield here[0][0] + others, reason, sum(row[2] for row in here)


def _rows(name: str, said: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield the non-empty values that an app or part reports about itself."""
    for what, value in said.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {item}" for key, item in value.items() if item != "")
        if value != "":
            yield name, what, value


def engine_line(engine: EngineStatus) -> str:
    """Return the engine and what each of its workers carries."""
    wanted = engine.workers_wanted
    text = f"engine {engine.name}, {counted(len(engine.workers), 'worker')}"
    if wanted not in ("auto", len(engine.workers)):
        text += f" ({wanted} asked for)"
    carried = (
        f"{worker.engine} {counted(worker.vnics, 'VNIC')}, {counted(worker.links, 'link')}"
        for worker in engine.workers
    )
    steered = f"; {counted(engine.steered, 'VNIC')} steered" if engine.steered else ""
    missed = f"; {counted(engine.missed, 'sighting')} missed" if engine.missed else ""
    return f"{text}: {'; '.join(carried)}{steered}{missed}"


def merging_line(engine: EngineStatus) -> str:
    """Return at how many VNICs received packets are merged, by protocol; empty: at none."""
    counts = [f"{name.upper()} at {counted(count, 'VNIC')}" for name, count in engine.merging.items()]
    return f"merged on receipt: {', '.join(counts)}" if counts else ""


def vnic_items(state: LabState, *, whole: bool = False) -> Iterator[Sheet | str]:
    """Yield the head of a status and its table of VNICs; `whole` as for `status_items`."""
    quirks = ", driver quirks" if state.driver_quirks else ""
    what = f"pid {state.pid}, netdevs {state.netdev}, EM {state.em}, {state.mads} MADs"
    yield f"lab {state.lab}: {what}{quirks}"
    if state.failure:
        yield f"it has ended: {state.failure}"
        yield "it carries nothing any more; hosts and their programs stay until: opavnic down"
    yield engine_line(state.engine)
    if merging := merging_line(state.engine):
        yield merging
    if state.datapath_reason:
        yield f"on the Python datapath: {state.datapath_reason}"
    vnics = list(state.vnics())
    # an interface usually bears the name of its virtual switch
    named = any(vnic.interface != vnic.vesw_text for _, vnic in vnics)
    fold = not whole and len(vnics) > _VNICS_SHOWN
    listed = [(host, vnic) for host, vnic in vnics if not fold or not vnic.is_up or vnic.moved_to]
    rows = [
        [
            host.name,
            lid_text(vnic.lid),
            vnic.vesw_text,
            *([vnic.interface] if named else []),
            " ".join([vnic.ip or "", *vnic.other_ips]) or vnic.ip,
            vnic.mac,
            vnic.mtu,
            wrong(vnic.state_text, not vnic.is_up),
        ]
        for host, vnic in listed
    ]
    interface = ("interface",) if named else ()
    if rows or not fold:
        yield Sheet(("host", "LID", "vesw", *interface, "address", "MAC", "MTU", "state"), rows)
    if fold and len(listed) < len(vnics):
        yield f"{counted(len(vnics) - len(listed), 'VNIC')} up; {_ALL}"


def _counter_rows(counters: dict[str, dict[str, int]]) -> Iterator[tuple[str, str, int]]:
    for element, values in counters.items():
        shown = {key: value for key, value in values.items() if value}
        for index, (key, value) in enumerate(shown.items()):
            yield element if index == 0 else "", key, value
