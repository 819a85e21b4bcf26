"""Both pipelines behind one door, over one set of tables and counters: versions 1, 2 and 3 side by side."""

from __future__ import annotations

from ejfat.drops import PipelineCounters
from ejfat.pipeline.v1 import PipelineV1
from ejfat.pipeline.v23 import PipelineV23
from ejfat.pipeline.verdict import Verdict
from ejfat.schema import TableSet

_V1_START = b"LB\x01"


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

    @property
    def counters(self) -> PipelineCounters:
        """Everything counted up to now."""
        return self._counters

    def process(self, frame: bytes) -> Verdict:
        """Return what becomes of `frame` (Ethernet without FCS); any bytes are fine."""
        if len(self._v1_gate) and (not len(self._v23_gate) or has_v1_header(frame)):
            return self._v1.process(frame)
        return self._v23.process(frame)


def has_v1_header(frame: bytes) -> bool:
    """Return whether this is UDP to port 19522 with a version 1 load balancer header."""
    ether_type = frame[12:14]
    if ether_type == b"\x08\x00" and len(frame) >= 34 and frame[23] == 17:
        udp = 14 + 4 * (frame[14] & 15)
    elif ether_type == b"\x86\xdd" and len(frame) >= 54 and frame[20] == 17:
        udp = 54
    else:
        return False
    return frame[udp + 2 : udp + 4] == b"LB" and frame[udp + 8 : udp + 11] == _V1_START
