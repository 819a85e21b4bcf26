"""A trace as a file that grows: what is written is read back, whole or cut."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import WireError
from hfi_sim.fabric.notices import TracedPacket
from hfi_sim.wire.captures import DLT_USER0, interface_statistics, read_capture
from opavnic.observe.trace_file import TraceReader, TraceWriter

RECORDS = st.builds(
    TracedPacket,
    time_s=st.integers(0, 10**9).map(lambda us: us / 1e6),
    direction=st.sampled_from(["h1:1->sw0:1", "sw0:1->h1:1", "a:1->b:1"]),
    packet=st.binary(max_size=80),
    drop=st.none() | st.sampled_from(Drop),
)


def written(records: list[TracedPacket]) -> bytes:
    writer = TraceWriter()
    return writer.head() + b"".join(map(writer.packet, records))


@given(st.lists(RECORDS))
def test_records_are_read_back(records: list[TracedPacket]) -> None:
    data = written(records)
    assert list(TraceReader(io.BytesIO(data)).records()) == records
    assert [(packet.link_type, packet.data) for packet in read_capture(data)] == [
        (DLT_USER0, record.packet) for record in records
    ]


def test_missed_packets_are_said_wherever_they_were_missed() -> None:
    record = TracedPacket(1.0, "h1:1->sw0:1", b"x" * 21, None)
    writer = TraceWriter()
    data = writer.head() + writer.packet(record) + interface_statistics(0, 5, 4, 3)
    data += writer.packet(record) + interface_statistics(0, 9, 70_009, 70_000)
    reader = TraceReader(io.BytesIO(data))
    assert list(reader.records()) == [record, record]
    assert reader.missed == 70_000
    assert len(list(read_capture(data))) == 2


def test_file_that_ends_early_is_said_after_what_could_be_read() -> None:
    records = [TracedPacket(float(n), "h1:1->sw0:1", bytes(30), Drop.LINK_DOWN) for n in range(3)]
    data = written(records)
    wholes = {len(written(records[:count])): count for count in range(1, 4)}
    for size in range(len(written(records[:1])), len(data)):
        reader = TraceReader(io.BytesIO(data[:size])).records()
        if size in wholes:
            assert list(reader) == records[: wholes[size]]
            continue
        whole = max(count for end, count in wholes.items() if end < size)
        assert [next(reader) for _ in range(whole)] == records[:whole]
        with pytest.raises(WireError, match=r"the file ends inside .*, \d+ of them are there"):
            next(reader)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_reader_of_any_bytes_yields_packets_or_an_error(junk: bytes, at: int) -> None:
    data = written([TracedPacket(0.0, "h1:1->sw0:1", b"x" * 40, None)])
    for stream in (junk, data[:at] + junk, data[:at] + junk + data[at + len(junk) :]):
        try:
            list(TraceReader(io.BytesIO(stream)).records())
        except WireError:
            continue


def test_reader_of_no_capture_says_so() -> None:
    with pytest.raises(WireError, match="neither a pcap nor a pcapng file"):
        list(TraceReader(io.BytesIO(b"no capture at all")).records())
