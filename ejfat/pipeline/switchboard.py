"""Both pipelines, for versions 1, 2 and 3, behind one interface, with one set of tables and counters."""

from __future__ import annotations

from ejfat.base.drops import LbDrop, PipelineCounters
from ejfat.pipeline.packet import Packet, Verdict, parse_packet
from ejfat.pipeline.v1 import PipelineV1
from ejfat.pipeline.v23 import PipelineV23
from ejfat.tables.schema import TableSet


class Pipeline:
    """The load balancer's data plane.

    Frames with a version 1 header go to the v1 pipeline, all others to the v2/v3 pipeline. If only the v1 tables
    have entries, all frames go to its pipeline, which determines the drop reasons.
    """

    backend: str = "python"
    """Name of the implementation, as shown by `opavnic status`."""

    def __init__(self, tables: TableSet | None = None) -> None:
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
        self._counters.lb(lb_id).furthest = furthest

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
