"""`opavnic demo`: a self-contained demonstration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hfi_sim.base.text import visible
from opavnic.base.signals import EXIT_INTERRUPTED, cancelled_by_ending_signals
from opavnic.cli.base.common import AsJson, choose
from opavnic.cli.base.output import EXIT_FAILED, fail, print_json, print_rich, print_table, say

if TYPE_CHECKING:
    from opavnic.lab.run.demo import DemoResult


def demo(
    as_json: AsJson = False,
    netdev: Annotated[
        Literal["tap", "memory"] | None,
        typer.Option(help="Netdevs to use; default: TAPs, or memory if TAPs are not available."),
    ] = None,
) -> None:
    """Two hosts on two virtual switches: pings both ways, a TCP transfer, and counters that must agree.

    \b
    Example:
      opavnic demo
      opavnic demo --json
      opavnic demo --netdev memory
    """
    import asyncio

    from hfi_sim.base import precise_loop
    from opavnic.lab.run.demo import run_demo

    kind, private, reason = choose(netdev)
    work = run_demo(kind, private=private, reason=reason, progress=(lambda *_: None) if as_json else say)
    try:
        result = precise_loop.run(cancelled_by_ending_signals(work))
    except asyncio.CancelledError:
        fail("demo interrupted; its lab is removed", EXIT_INTERRUPTED)
    if as_json:
        print_json(result.as_json())
    else:
        _summary(result)
    if not result.ok:
        raise typer.Exit(EXIT_FAILED)


def _summary(result: DemoResult) -> None:
    from rich.text import Text

    from hfi_sim.base.quantities import rounded_rate

    def verdict(ok: bool) -> Text:
        return Text("ok", "green") if ok else Text("FAILED", "red")

    rows: list[list[object]] = [
        [
            f"ping {ping.source} -> {ping.target} in {ping.vesw}",
            f"{ping.received} of {ping.sent} answered, {100 * (1 - ping.received / max(ping.sent, 1)):.0f}% loss"
            + (f", {ping.rtt_ms:.3g} ms" if ping.rtt_ms is not None else ""),
            verdict(ping.ok),
        ]
        for ping in result.pings
    ]
    rows += [
        [
            f"{transfer.program} {transfer.source} -> {transfer.target} in {transfer.vesw}",
            f"{transfer.bytes / 1e6:.1f} MB in {transfer.seconds:.2f} s, {rounded_rate(transfer.bits_per_second)}",
            verdict(transfer.bytes > 0),
        ]
        for transfer in result.transfers
    ]
    rows.append(["MADs exchanged", str(result.mads), verdict(result.mads > 0)])
    print_table(
        ("what", "result", ""), rows, title=f"demo on {_netdevs(result)} netdevs, {result.took_s:g} s"
    )
    print_table(
        ("packets", "there", "here", ""),
        [[count.what, count.first, count.second, verdict(count.ok)] for count in result.counts],
    )
    lost = ", ".join(f"{name} {missing:+}" for name, missing in result.balance.items())
    print_rich(Text.assemble("every packet accounted for: ", verdict(not lost), f" {visible(lost)}"))
    if result.tap_drops:
        reason = "queue of the TAP full, or no carrier yet"
        print_rich(f"dropped by the kernel before a VNIC saw them ({reason}): {result.tap_drops}")
    print_rich(f"demo {'passed' if result.ok else 'FAILED'}")


def _netdevs(result: DemoResult) -> str:
    return "TAP" if result.netdev == "tap" else "in-memory"
