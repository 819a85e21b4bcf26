"""Both pipelines, for versions 1, 2 and 3, behind one interface with one set of tables; and the native one.

The tables stay in Python; the native half gets them as a snapshot that is swapped as a whole after each change. Frames
that it does not handle (ARP, ICMP echo, neighbor discovery, link-local groups) are left to the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ejfat.base.drops import GONE, LbDrop, PipelineCounters
from ejfat.base.errors import BadRequestError
from ejfat.pipeline.packet import Packet, Verdict, parse_packet
from ejfat.pipeline.v1 import PipelineV1
from ejfat.pipeline.v23 import PipelineV23
from ejfat.tables.match_action import Entry, KeyMatch, Table
from ejfat.tables.schema import TableSet
from opavnic.datapath.selection import NOT_BUILT, load_native

if TYPE_CHECKING:
    from opavnic import _native


class Pipeline:
    """The load balancer's data plane.

    Frames with a version 1 header go to the v1 pipeline, all others to the v2/v3 pipeline. If only the v1 tables
    have entries, all frames go to its pipeline, which determines the drop reasons.
    """

    backend: str = "python"
    """Name of the implementation, as shown by `opavnic status`."""

    def __init__(self, tables: TableSet | None = None, reason: str = "") -> None:
        """Args:  reason: why it is not the native one, as shown by `opavnic status`."""
        self.reason = reason
        self.tables = TableSet() if tables is None else tables
        self._counters = PipelineCounters()
        self._v1 = PipelineV1(self.tables.v1, self._counters)
        self._v23 = PipelineV23(self.tables.v23, self._counters)
        self._v1_gate = self.tables.v1["dst_filter_table"]
        self._v23_gate = self.tables.v23["mac_dst_filter_table"]
        self.sync_ports = range(0)
        """UDP ports for sync messages; empty if no control plane accepts them."""

    @property
    def counters(self) -> PipelineCounters:
        """The current counters."""
        return self._counters

    def serve(self, sync_ports: range, *, guard_v1: bool) -> None:
        """Prepare for running with a control plane.

        Args:    sync_ports: UDP ports for sync messages. guard_v1: apply the source filter of instance 0 to version 1
            as well; the specification has no such filter.
        """
        self.sync_ports = sync_ports
        self._v1.sources = self._v23.sources if guard_v1 else None

    def believe(self, lb_id: int, furthest: int | None) -> None:
        """Set the furthest tick of an instance that is believed; None: any."""
        self._counters.lbs[lb_id].furthest = furthest

    def count_sync(self, length: int, refusal: LbDrop | None) -> None:
        """Count a frame with a sync message, and the reason if it was refused."""
        counters = self._counters
        counters.rx_packets += 1
        counters.rx_bytes += length
        if refusal is None:
            counters.syncs += 1
        else:
            counters.drop(refusal)

    def process(self, frame: bytes) -> Verdict:
        """Return the verdict on `frame` (Ethernet without FCS), which may be any bytes."""
        return self.process_packet(parse_packet(frame))

    def process_packet(self, packet: Packet) -> Verdict:
        """Return the verdict on a frame that has been parsed."""
        if len(self._v1_gate) and (not len(self._v23_gate) or packet.has_v1_header):
            return self._v1.process(packet)
        return self._v23.process(packet)


Backend = Literal["python", "native"]
Wanted = Literal["auto", "python", "native"]


def make_pipeline(wanted: Wanted = "auto", tables: TableSet | None = None, *, workers: int = 1) -> Pipeline:
    """Return the requested pipeline; `auto` selects the native one if it is built.

    Args:    workers: threads that the native one may have on an interface.
    Raises:  BadRequestError: `native` was requested but is not built.
    """
    if wanted == "python":
        return Pipeline(tables, "asked for")
    try:
        return NativePipeline(tables, workers=workers)
    except BadRequestError as error:
        if wanted == "native":
            raise
        return Pipeline(tables, str(error))


class NativePipeline(Pipeline):
    """The load balancer's data plane, mostly native.

    `core` is the native half; a thread or a datapath may run frames through it at any time. `counters` and `process`
    behave as in the reference.
    """

    backend = "native"

    def __init__(self, tables: TableSet | None = None, *, workers: int = 1) -> None:
        """Raises:  BadRequestError: the native module is not built, or too old to have the pipeline."""
        native = load_native()
        if native is None or not hasattr(native, "EjfatPipeline"):
            raise BadRequestError(NOT_BUILT.replace("datapath", "pipeline"))
        super().__init__(tables)
        self.core: _native.EjfatPipeline = native.EjfatPipeline(workers)
        self._drops = [LbDrop(name) for name in native.EJFAT_DROPS]
        self._given: dict[str, int] = {}
        self.refresh()
        self.tables.on_change.append(self.refresh)

    @property
    def counters(self) -> PipelineCounters:
        """The current counters of both halves."""
        self._collect()
        return self._counters

    def refresh(self) -> None:
        """Pass all that changed to the native half at once."""
        changed: list[tuple[str, bool, list[_native.EjfatRow]]] = []
        for dialect, table in self.tables:
            name = f"{dialect.value}:{table.spec.name}"
            if self._given.get(name) != table.version:
                self._given[name] = table.version
                changed.append((name, *_change_of(table)))
        if changed:
            self.core.set_tables(changed)

    def serve(self, sync_ports: range, *, guard_v1: bool) -> None:
        """See `Pipeline.serve`."""
        super().serve(sync_ports, guard_v1=guard_v1)
        self.core.serve(sync_ports.start, sync_ports.stop, guard_v1)

    def believe(self, lb_id: int, furthest: int | None) -> None:
        """See `Pipeline.believe`."""
        super().believe(lb_id, furthest)
        self.core.believe(lb_id, furthest)

    def process(self, frame: bytes) -> Verdict:
        """Return the verdict on `frame` (Ethernet without FCS), which may be any bytes."""
        return self._process_native(frame) or super().process(frame)

    def process_packet(self, packet: Packet) -> Verdict:
        """See `Pipeline.process_packet`."""
        return self._process_native(packet.raw) or super().process_packet(packet)

    def _process_native(self, frame: bytes) -> Verdict | None:
        out = self.core.process(frame)
        if out is None:
            return None
        return Verdict(None, self._drops[out]) if isinstance(out, int) else Verdict(out)

    def _collect(self) -> None:
        taken, total = self.core.collect(), self._counters
        if not taken["rx_packets"]:
            return
        for name in ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes"):
            setattr(total, name, getattr(total, name) + taken[name])
        total.drops.update(_drops(taken["drops"]))
        for lb_id, row in taken["lbs"].items():
            lb = total.lbs[lb_id]
            lb.rx_packets += row["rx_packets"]
            lb.rx_bytes += row["rx_bytes"]
            v1, v2, v3 = row["by_version"]
            lb.rx_v1, lb.rx_v2, lb.rx_v3 = lb.rx_v1 + v1, lb.rx_v2 + v2, lb.rx_v3 + v3
            if row["last_tick"] is not None:
                lb.last_tick = row["last_tick"]
                lb.max_tick = max(lb.max_tick, row["max_tick"])
                lb.ahead += row["ahead"]
            lb.drops.update(_drops(row["drops"]))
        for member_id, (packets, size, *gone) in taken["members"].items():
            member = total.members[member_id]
            member.tx_packets += packets
            member.tx_bytes += size
            for reason, count in zip(GONE, gone, strict=True):
                if count:
                    member.drops[reason] += count


def _drops(taken: dict[str, int]) -> dict[LbDrop, int]:
    return {LbDrop(name): count for name, count in taken.items()}


def _change_of(table: Table) -> tuple[bool, list[_native.EjfatRow]]:
    """Return whether a table is given anew, and rows: all, by descending precedence, or those that changed.

    A row without an action stands for an entry that is gone.
    """
    touched = table.take_touched()
    if touched is not None and not table.spec.takes_priority:
        return False, [_row(matches, table.get(matches)) for matches in touched]
    entries = list(table)
    if table.spec.takes_priority:
        entries.sort(key=lambda entry: entry.priority)
    return True, [_row(entry.matches, entry) for entry in entries]


def _row(matches: Sequence[KeyMatch], entry: Entry | None) -> _native.EjfatRow:
    values, masks = [match.value for match in matches], [match.mask for match in matches]
    return (values, masks, "", []) if entry is None else (values, masks, entry.action, list(entry.args))
