"""The page about load balancers in the web view: reservations, epochs, workers, senders, drops. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from opavnic.web.scene.part_page import (
    Answers,
    BarSection,
    NoteSection,
    PartPage,
    PlotSection,
    Section,
    TableSection,
    apps_of,
)

_MEGA: Final = 1e6


def sections(answers: Answers) -> Iterator[Section]:
    """Yield what the page shows of every load balancer of the lab."""
    for path, app in answers.now.items():
        before = answers.before.get(path, app)
        name = f"Load balancer on {app['host']}"
        yield NoteSection(name, _head(app))
        for number, reservation in _by_id(app).items():
            then = _by_id(before).get(number, reservation)
            yield from _reservation(answers, app["host"], reservation, then)
        if not app["reservations"]:
            yield NoteSection(f"Reservations on {app['host']}", "none")
        yield _drops(answers, app, before)


def _by_id(app: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    return {row["id"]: row for row in app["reservations"]}


def _head(app: Mapping[str, Any]) -> str:
    pipeline = f"{app['pipeline']} pipeline in the {app['pipeline_in']}"
    counts = f"{app['rx_packets']:,} packets in, {app['tx_packets']:,} out"
    syncs = f"{app['syncs']:,} sync messages, {app['bad_syncs']:,} refused"
    more = {
        "frames missed": app["missed"],
        "packets that did not arrive": sum(app["unreachable"].values()),
        "ticks not believed": sum(app["refused_ticks"].values()),
    }
    syncs += "".join(f", {count:,} {text}" for text, count in more.items() if count)
    return f"{pipeline}, tables {app['tables']}, control plane at {app['control']}; {counts}; {syncs}"


def _reservation(
    answers: Answers, host: str, row: Mapping[str, Any], before: Mapping[str, Any]
) -> Iterator[Section]:
    name = f"Reservation {row['id']} on {host}"
    yield NoteSection(name, _said(row))
    for number, issue in enumerate(row["issues"], 1):
        yield NoteSection(f"{name}, {issue['severity']} {number}", issue["text"], wrong=True)
    workers = row["workers"]
    then = {worker["session"]: worker for worker in before["workers"]}
    paces = {
        worker["session"]: answers.rate(
            worker.get("mbr_tx_bytes", 0), then.get(worker["session"], worker).get("mbr_tx_bytes")
        )
        for worker in workers
    }
    yield PlotSection(
        f"{name}: sent to workers",
        "Mbit/s",
        {_worker(worker): 8 * paces[worker["session"]] / _MEGA for worker in workers},
    )
    yield PlotSection(
        f"{name}: fill",
        "%",
        {_worker(worker): 100 * worker.get("fill_percent", 0.0) for worker in workers},
    )
    yield PlotSection(f"{name}: ticks", "1/s", {"ticks": row.get("avg_event_rate_hz", 0.0)})
    yield _epoch_bars(name, row["epochs"])
    yield _worker_table(answers, name, workers, then)


def _said(row: Mapping[str, Any]) -> str:
    """Return what is to be said of a reservation in a line."""
    parts = [
        f"{row['name']}, instance {row['instance']}, strategy {row['strategy']}",
        f"senders {', '.join(row['senders']) or 'none'}",
    ]
    if "event_number" in row:
        parts.append(f"tick {row['event_number']:,.0f}, {row['avg_event_rate_hz']:,.1f} ticks/s")
    if row["expires_in_s"] is not None:
        parts.append(f"ends in {row['expires_in_s']:g} s")
    counted = {
        "restarts": "restarts of the senders",
        "takebacks": "epochs taken back",
        "waits": "waits for room",
    }
    parts += [f"{row[key]} {text}" for key, text in counted.items() if row[key]]
    parts += [f"{reason} {count}" for reason, count in row["refused_syncs"].items()]
    return "; ".join(parts)


def _worker(worker: Mapping[str, Any]) -> str:
    return f"{worker['name']} #{worker['session']}"


def _epoch_bars(name: str, epochs: Iterable[Mapping[str, Any]]) -> BarSection:
    shown = list(epochs)
    bars = [f"epoch {epoch['number']} from tick {epoch['from_tick']:,} ({epoch['state']})" for epoch in shown]
    members = dict.fromkeys(member for epoch in shown for member in sorted(epoch["slots"]))
    pieces = {member: [float(epoch["slots"].get(member, 0)) for epoch in shown] for member in members}
    return BarSection(f"{name}: slots by epoch", "slots of 512", bars, pieces)


def _worker_table(
    answers: Answers, name: str, workers: Iterable[Mapping[str, Any]], before: Mapping[int, Mapping[str, Any]]
) -> TableSection:
    rows = []
    for worker in workers:
        then = before.get(worker["session"], {})
        sent = worker.get("mbr_tx_pkts", 0.0)
        rows.append(
            {
                "worker": _worker(worker),
                "address": worker["address"],
                "state": worker["state"],
                "slots": worker["slots"],
                "weight": worker["weight"],
                "fill": f"{100 * worker.get('fill_percent', 0.0):.0f} %",
                "control": round(worker.get("control_signal", 0.0), 3),
                "sent": int(sent),
                "rate": round(answers.rate(sent, then.get("mbr_tx_pkts")), 1),
                "received": int(worker.get("total_packets_recv", 0)),
                "events": int(worker.get("total_events_reassembled", 0)),
                "errors": int(
                    worker.get("total_events_reassembly_err", 0) + worker.get("total_event_enqueue_err", 0)
                ),
            }
        )
    columns = {
        "worker": "worker", "address": "address", "state": "state", "slots": "slots", "weight": "weight",
        "fill": "fill", "control": "control", "sent": "packets sent to it", "rate": "packets/s",
        "received": "packets it got", "events": "events", "errors": "errors",
    }  # fmt: skip
    return TableSection(f"{name}: workers", columns, rows, "no worker is registered")


def _drops(answers: Answers, app: Mapping[str, Any], before: Mapping[str, Any]) -> TableSection:
    rows = [
        {
            "reason": reason,
            "packets": count,
            "rate": round(answers.rate(count, before["drops"].get(reason, 0)), 1),
        }
        for reason, count in app["drops"].items()
    ]
    columns = {"reason": "stage and reason", "packets": "packets", "rate": "packets/s"}
    return TableSection(f"Drops on {app['host']}", columns, rows)


PAGE: Final = PartPage("ejfat", "Load balancer", asks=apps_of("ejfat-lb"), sections=sections)
