"""`opavnic status`, `ps`, `logs`: state and logs of labs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hfi_sim.text import counted
from opavnic.cli.common import AsJson, LabOption, lab_client
from opavnic.cli.output import pick, print_json, print_line, print_table, say
from opavnic.observe.rates import vesw_text
from opavnic.signals import followed

if TYPE_CHECKING:
    from opavnic.lab.runtime import LabDir


def status(
    lab: LabOption = None,
    counters: Annotated[
        bool, typer.Option("--counters", help="Also show the counters of every element.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a running lab: its hosts, VNICs as configured by the Ethernet Manager, and links.

    \b
    Example:
      opavnic status
      opavnic status --counters --json
    """
    data = lab_client(lab).get("/status?counters=1" if counters else "/status")
    if as_json:
        print_json(data)
        return
    print_vnics(data)
    print_line(engine_line(data["engine"]))
    print_table(
        ("link", "state", "packets ->", "packets <-", "drops", "datapath"),
        [
            pick(link, "name", "state", "packets_forth", "packets_back", "drops", "datapath")
            for link in data["links"]
        ],
    )
    if data["apps"]:
        print_table(("app", "what", "value"), list(_app_rows(data["apps"])))
    if parts := data.get("parts"):
        rows = [row for name, values in parts.items() for row in _rows(name, values)]
        print_table(("part", "what", "value"), rows)
    if lost := data["balance"]:
        say(
            f"packets not accounted for (a bug): {', '.join(f'{name} {count:+}' for name, count in lost.items())}"
        )
    if counters:
        print_table(("element", "counter", "value"), list(_counter_rows(data["counters"])), title="counters")
        print_line(
            "netdev: the kernel's own figures; tx_dropped: its queue was full, or had no carrier yet; no VNIC saw it"
        )


def _app_rows(apps: list[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    for app in apps:
        said = {what: value for what, value in app.items() if what not in ("kind", "host")}
        yield from _rows(f"{app['kind']} on {app['host']}", said)


def _rows(name: str, said: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield the non-empty values that an app or part reports about itself."""
    for what, value in said.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {item}" for key, item in value.items())
        if value != "":
            yield name, what, value


def engine_line(engine: dict[str, Any]) -> str:
    """Return the engine and what each of its workers carries."""
    workers = engine["workers"]
    wanted = engine["workers_wanted"]
    text = f"engine {engine['name']}, {counted(len(workers), 'worker')}"
    if wanted not in ("auto", len(workers)):
        text += f" ({wanted} asked for)"
    carried = (
        f"{worker['engine']} {counted(worker['vnics'], 'VNIC')}, {counted(worker['links'], 'link')}"
        for worker in workers
    )
    missed = f"; {counted(engine['missed'], 'sighting')} missed" if engine["missed"] else ""
    return f"{text}: {'; '.join(carried)}{missed}"


def print_vnics(data: dict[str, Any]) -> None:
    """Print the head of a status and its table of VNICs."""
    quirks = "on" if data["driver_quirks"] else "off"
    print_line(
        f"lab {data['lab']}: pid {data['pid']}, netdevs {data['netdev']}, datapath {data['datapath']}, "
        f"EM {data['em']}, driver quirks {quirks}, {data['mads']} MADs"
    )
    rows = [
        [host["name"], host["lid"], vesw_text(vnic), *pick(vnic, "interface", "ip", "mac", "mtu", "state")]
        for host in data["hosts"]
        for vnic in host["vnics"]
    ]
    print_table(("host", "LID", "vesw", "interface", "address", "MAC", "MTU", "state"), rows)


def _counter_rows(counters: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    for element, values in counters.items():
        shown = {key: value for key, value in values.items() if value}
        for index, (key, value) in enumerate(shown.items()):
            yield element if index == 0 else "", key, value


def ps(as_json: AsJson = False) -> None:
    """List running labs, and killed labs that left something behind.

    \b
    Example:
      opavnic ps
    """
    from opavnic.lab.errors import JournalError
    from opavnic.lab.runtime import all_labs

    found = []
    for lab in all_labs():
        journal = None
        state = "gone (opavnic prune)"
        try:
            journal = lab.load()
        except JournalError:
            state = "unknown: its journal cannot be read"
        running = journal is not None and journal.alive
        found.append(
            {
                "lab": lab.name,
                "state": "running" if running else state,
                "pid": journal.pid if journal is not None and running else None,
                "hosts": len(journal.hosts) if journal is not None else 0,
                "file": journal.file if journal is not None else "",
            }
        )
    if as_json:
        print_json(found)
    elif not found:
        print("no lab is running")
    else:
        print_table(("lab", "state", "pid", "hosts", "file"), [list(one.values()) for one in found])


def _killed(name: str | None) -> LabDir | None:
    """Return the killed lab of that name (None: the only one, if no lab is running), if it left a log."""
    from opavnic.lab.runtime import all_labs

    labs = all_labs()
    killed = [lab for lab in labs if not lab.running]
    found = [lab for lab in killed if lab.name == name]
    if name is None and len(labs) == len(killed) == 1:
        found = killed
    return next((lab for lab in found if lab.log_file.exists() or lab.old_log_file.exists()), None)


def logs(
    lab: LabOption = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep following until Ctrl-C.")] = False,
) -> None:
    """Show the log of a running lab, or of a killed one until it is pruned.

    -f ends with Ctrl-C (or SIGTERM, SIGHUP; exit code 0), or when the lab ends.

    \b
    Example:
      opavnic logs -f
    """
    killed = _killed(lab)
    if killed is not None:
        for line in killed.log_lines():
            print_line(line)
        return
    client = lab_client(lab)
    if not follow:
        for line in client.stream("/logs"):
            print_line(line)
        return
    with suppress(KeyboardInterrupt), followed():
        for line in client.stream("/logs?follow=1"):
            print_line(line, flush=True)
