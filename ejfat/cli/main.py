"""The command group `opavnic ejfat`. Commands import their modules when they run, to keep start-up fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ejfat.cli.admin import app as admin
from ejfat.cli.doctor import doctor
from ejfat.cli.lb import lb
from ejfat.cli.live import recv, send
from opavnic.base.signals import EXIT_INTERRUPTED, cancelled_by_ending_signals
from opavnic.cli.base.common import AsJson
from opavnic.cli.base.group import command_group
from opavnic.cli.base.output import EXIT_FAILED, fail, print_json, print_rich, print_table

app = command_group("The EJFAT UDP load balancer.")

TablesFile = Annotated[Path, typer.Option("--tables", help="Table script: table_add ..., run_traffic.")]


@app.command(
    epilog="Example: opavnic ejfat sim --tables tables.txt --in packets_in.pcap --out packets_out.pcap"
)
def sim(
    tables: TablesFile,
    source: Annotated[Path, typer.Option("--in", help="Capture of the incoming frames.")],
    out: Annotated[Path, typer.Option("--out", help="Capture to write the outgoing frames to.")],
    meta: Annotated[Path | None, typer.Option("--meta", help="Metadata, one row for each frame.")] = None,
    meta_out: Annotated[
        Path | None, typer.Option(help="Metadata file to write, one row for each outgoing frame.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a capture through the pipeline, like the simulator in the specification."""
    from ejfat.files.simulator import simulate

    counters, written = simulate(tables, source, out, meta=meta, meta_out=meta_out)
    drops = {str(reason): count for reason, count in counters.drops.items()}
    if as_json:
        replies = {str(kind): count for kind, count in counters.replies.items()}
        print_json({"in": counters.rx_packets, "out": written, "replies": replies, "drops": drops})
        return
    print_rich(f"{counters.rx_packets} frames in, {written} out, {counters.dropped} dropped")
    if drops:
        print_table(("dropped at", "frames"), sorted(drops.items()))


@app.command(epilog="Example: opavnic ejfat tables tables.txt --json")
def tables(
    script: Annotated[Path, typer.Argument(help="Table script.", show_default=False)], as_json: AsJson = False
) -> None:
    """Check a table script and show the resulting tables."""
    from ejfat.tables.match_action import match_text
    from ejfat.tables.script import load_script
    from opavnic.base.files import MAX_TEXT, read_text

    loaded = load_script(read_text(script, MAX_TEXT, "table script"), str(script))
    rows = [
        {
            "pipeline": dialect.value,
            "table": table.spec.name,
            "key": [
                match_text(key, match) for key, match in zip(table.spec.keys, entry.matches, strict=True)
            ],
            "action": entry.action,
            "arguments": [hex(value) for value in entry.args],
            "priority": entry.priority if table.spec.takes_priority else None,
        }
        for dialect, table in loaded
        for entry in table
    ]
    if as_json:
        print_json(rows)
        return
    columns = ("pipeline", "table", "key", "action", "arguments", "priority")
    print_table(columns, [[" ".join(v) if isinstance(v, list) else v for v in row.values()] for row in rows])
    sizes = [f"{t.spec.name} ({d.value}) {len(t)}/{t.spec.size}" for d, t in loaded if len(t)]
    print_rich(", ".join(sizes) or "no entries")


@app.command(epilog="Example: opavnic ejfat demo --json")
def demo(
    as_json: AsJson = False,
    netdev: Annotated[
        Literal["tap", "memory"] | None,
        typer.Option(help="Netdevs to use; default: TAPs, or memory if TAPs are not available."),
    ] = None,
) -> None:
    """Run three sources, a load balancer and four workers on a virtual switch; one worker slows down, one is killed."""
    import asyncio
    from dataclasses import asdict

    from hfi_sim.base import precise_loop
    from opavnic.cli.base.common import choose

    kind, private, _ = choose(netdev)
    # imported after choose(): gRPC may start threads, and a process with threads cannot enter a user namespace
    from ejfat.cli.demo_view import live_view, summary
    from ejfat.demo.run import run_demo

    try:
        if as_json:
            work = run_demo(netdev=kind, private=private)
            result = precise_loop.run(cancelled_by_ending_signals(work))
        else:
            with live_view() as show:
                work = run_demo(show=show, netdev=kind, private=private)
                result = precise_loop.run(cancelled_by_ending_signals(work))
    except asyncio.CancelledError:
        fail("demo interrupted; its lab is removed", EXIT_INTERRUPTED)
    if as_json:
        print_json(asdict(result))
    else:
        summary(result)
    if not result.ok:
        raise typer.Exit(EXIT_FAILED)


@app.command("install-dissectors", epilog="Example: opavnic ejfat install-dissectors")
def install_dissectors(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Plugin directory; default: that of your Wireshark."),
    ] = None,
) -> None:
    """Install the Wireshark dissectors of the LB, reassembly and sync headers."""
    from ejfat.dissectors import SCRIPTS
    from opavnic.cli.program.dissectors import install_scripts

    install_scripts([SCRIPTS], directory)


app.command(epilog="Example: opavnic ejfat send --to 10.7.0.1 --event-size 100K --rate 100 data.bin")(send)
app.command(epilog="Example: opavnic ejfat recv --listen 0.0.0.0:10000 --threads 2 --out events/")(recv)
app.command(epilog="Example: opavnic ejfat doctor --address 10.7.0.2")(doctor)
app.command(epilog="Example: opavnic ejfat lb --interface eth1 --ipv4 10.7.0.1 --listen 0.0.0.0:18008")(lb)
app.add_typer(admin, name="admin")
