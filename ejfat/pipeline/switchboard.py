"""Both pipelines behind one door, over one set of tables and counters: versions 1, 2 and 3 side by side."""

from __future__ import annotations

from ejfat.drops import Drop, PipelineCounters
from ejfat.pipeline.udp import Udp, find_udp
from ejfat.pipeline.v1 import PipelineV1
from ejfat.pipeline.v23 import PipelineV23
from ejfat.pipeline.verdict import Verdict
from ejfat.schema import TableSet
from ejfat.wire.headers import LB_PORT

_V1_START = b"LB\x01"
_SYNC_START = b"LC"


class Pipeline:
    """The load balancer's data plane.

    Frames with a version 1 header go to the document's pipeline, all others to today's. Where only the document's
    tables are filled, all frames go there, and the drop reasons are its own.
    """

    backend: str = "python"
    """Which implementation this is, as `opavnic status` shows it."""

    def __init__(self, tables: TableSet | None = None) -> None:
        self.tables = TableSet() if tables is None else tables
        self._counters = PipelineCounters()
        self._v1 = PipelineV1(self.tables.v1, self._counters)
        self._v23 = PipelineV23(self.tables.v23, self._counters)
        self._v1_gate = self.tables.v1["dst_filter_table"]
        self._v23_gate = self.tables.v23["mac_dst_filter_table"]
        self.sync_ports = range(0)
        """Where sync messages come to; empty: there is no control plane that takes them."""

    @property
    def counters(self) -> PipelineCounters:
        """Everything counted up to now."""
        return self._counters

    def serve(self, sync_ports: range, *, guard_v1: bool) -> None:
        """Stand before a control plane.

        Args:    guard_v1: let instance 0's source filter, which is today's, hold for version 1 as well; the document
            has none.
        """
        self.sync_ports = sync_ports
        self._v1.sources = self._v23.sources if guard_v1 else None

    def find_sync(self, frame: bytes) -> Udp | None:
        """Return where in a frame the datagram is that begins as a sync message and goes to a port for them."""
        udp = find_udp(frame)
        if (
            udp is None
            or frame[udp.at + 8 : udp.at + 10] != _SYNC_START
            or udp.port(frame) not in self.sync_ports
        ):
            return None
        return udp

    def count_sync(self, length: int, refusal: Drop | None) -> None:
        """Count a frame that was a sync message, and why it was refused."""
        counters = self._counters
        counters.rx_packets += 1
        counters.rx_bytes += length
        if refusal is None:
            counters.syncs += 1
        else:
            counters.drop(refusal)

    def process(self, frame: bytes) -> Verdict:
        """Return what becomes of `frame` (Ethernet without FCS); any bytes are fine."""
        if len(self._v1_gate) and (not len(self._v23_gate) or has_v1_header(frame)):
            return self._v1.process(frame)
        return self._v23.process(frame)


def has_v1_header(frame: bytes) -> bool:
    """Return whether this is UDP to port 19522 with a version 1 load balancer header."""
    udp = find_udp(frame)
    return udp is not None and udp.port(frame) == LB_PORT and frame[udp.at + 8 : udp.at + 11] == _V1_START
