"""The pipeline on `opavnic._native`: the same tables, the same bytes, the same counters, some ten times the packets.

The tables stay in Python; the native side is given them as a snapshot, swapped whole after each change. What it does
not do itself (ARP, ICMP echo, neighbor discovery, link-local groups) it hands back, and the reference does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from ejfat.drops import Drop, PipelineCounters
from ejfat.errors import BadRequestError
from ejfat.pipeline.switchboard import Pipeline
from ejfat.pipeline.verdict import Verdict
from ejfat.schema import TableSet
from ejfat.tables import Table
from opavnic.datapath.selection import NOT_BUILT, load_native

if TYPE_CHECKING:
    from opavnic import _native

Backend = Literal["python", "native"]
Wanted = Literal["auto", "python", "native"]


class Choice(NamedTuple):
    """A pipeline, and why it is not the native one where `auto` would have taken that."""

    pipeline: Pipeline
    reason: str = ""


def make_pipeline(wanted: Wanted = "auto", tables: TableSet | None = None) -> Choice:
    """Return the pipeline that is wanted; `auto` takes the native one where it is built.

    Raises:  BadRequestError: `native` was asked for and is not built.
    """
    if wanted == "python":
        return Choice(Pipeline(tables), "asked for")
    if not has_native():
        reason = NOT_BUILT.replace("datapath", "pipeline")
        if wanted == "native":
            raise BadRequestError(reason)
        return Choice(Pipeline(tables), reason)
    return Choice(NativePipeline(tables))


def has_native() -> bool:
    """Return whether the native module is built, and recent enough to hold the pipeline."""
    return hasattr(load_native(), "EjfatPipeline")


class NativePipeline(Pipeline):
    """The load balancer's data plane, most of it native.

    `core` is the native half; a thread or a datapath may run frames through it at any time. `counters` and `process`
    are as the reference has them.
    """

    backend = "native"

    def __init__(self, tables: TableSet | None = None) -> None:
        """Raises BadRequestError where the native module is not built."""
        native = load_native()
        if native is None or not hasattr(native, "EjfatPipeline"):
            raise BadRequestError(NOT_BUILT.replace("datapath", "pipeline"))
        super().__init__(tables)
        self.core: _native.EjfatPipeline = native.EjfatPipeline()
        self._drops = [Drop(name) for name in native.EJFAT_DROPS]
        self._given: dict[str, int] = {}
        self.refresh()
        self.tables.on_change.append(self.refresh)

    @property
    def counters(self) -> PipelineCounters:
        """Everything counted up to now, here and in the native half."""
        self._collect()
        return self._counters

    def refresh(self) -> None:
        """Give the native half the tables that changed, all of them at once."""
        changed = []
        for dialect, table in self.tables:
            name = f"{dialect.value}:{table.spec.name}"
            if self._given.get(name) != table.version:
                self._given[name] = table.version
                changed.append((name, _rows(table)))
        if changed:
            self.core.set_tables(changed)

    def serve(self, sync_ports: range, *, guard_v1: bool) -> None:
        """As the reference."""
        super().serve(sync_ports, guard_v1=guard_v1)
        self.core.serve(sync_ports.start, sync_ports.stop, guard_v1)

    def process(self, frame: bytes) -> Verdict:
        """Return what becomes of `frame` (Ethernet without FCS); any bytes are fine."""
        out = self.core.process(frame)
        if out is None:
            return self.process_here(frame)
        return Verdict(None, self._drops[out]) if isinstance(out, int) else Verdict(out)

    def process_batch(self, frames: Sequence[bytes]) -> list[bytes | None]:
        """Return what leaves of each frame, None where nothing does (or to the host)."""
        out, punts = self.core.batch(frames)
        for index in punts:
            verdict = self.process_here(frames[index])
            out[index] = None if verdict.to_host else verdict.frame
        return out

    def process_here(self, frame: bytes) -> Verdict:
        """The reference's verdict on a frame that the native half handed back."""
        return super().process(frame)

    def _collect(self) -> None:
        taken, total = self.core.collect(), self._counters
        if not taken["rx_packets"]:
            return
        for name in ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes"):
            setattr(total, name, getattr(total, name) + taken[name])
        _add_drops(total.drops, taken["drops"])
        for lb_id, row in taken["lbs"].items():
            lb = total.lb(lb_id)
            lb.rx_packets += row["rx_packets"]
            lb.rx_bytes += row["rx_bytes"]
            v1, v2, v3 = row["by_version"]
            lb.rx_v1, lb.rx_v2, lb.rx_v3 = lb.rx_v1 + v1, lb.rx_v2 + v2, lb.rx_v3 + v3
            if row["last_tick"] is not None:
                lb.last_tick = row["last_tick"]
                lb.max_tick = max(lb.max_tick, row["max_tick"])
            _add_drops(lb.drops, row["drops"])
        for member_id, (packets, size) in taken["members"].items():
            member = total.member(member_id)
            member.tx_packets += packets
            member.tx_bytes += size


def _add_drops(total: dict[Drop, int], taken: dict[str, int]) -> None:
    for name, count in taken.items():
        reason = Drop(name)
        total[reason] = total.get(reason, 0) + count


def _rows(table: Table) -> list[_native.EjfatRow]:
    """Return a table's entries in the order in which they win, where several match."""
    entries = list(table)
    if table.spec.takes_priority:
        entries.sort(key=lambda entry: entry.priority)
    return [
        (
            [match.value for match in entry.matches],
            [match.mask for match in entry.matches],
            entry.action,
            list(entry.args),
        )
        for entry in entries
    ]
