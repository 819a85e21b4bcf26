"""Captures as pages: any bytes give one, and what is no capture is refused in a line."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.counters import Drop
from hfi_sim.fabric.notices import TracedPacket
from hfi_sim.wire.captures import PcapngWriter
from opavnic.cli.main import main
from opavnic.observe.drawings import way_drawing
from opavnic.observe.journeys import journeys
from opavnic.observe.pages import packet_page
from opavnic.observe.trace_file import read_journeys


def test_capture_without_links_goes_by_lids(tmp_path: Path) -> None:
    packet = bytes.fromhex("01 00 b0 00 02 00 00 c0 78 00 01 80 00 00 00 00") + bytes(8 * 9)
    writer = PcapngWriter()
    (tmp_path / "x.pcapng").write_bytes(writer.head() + writer.packet(packet, 0, "", ""))
    (journey,) = read_journeys(tmp_path / "x.pcapng")
    assert (journey.source, journey.target) == ("LID 0x1", "LID 0x2")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a capture"),
        (b'{"lid": 1}', "not a capture"),
        (PcapngWriter().head(), "without 16B packets"),
    ],
)
def test_file_that_is_no_capture_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    (tmp_path / "x").write_bytes(content)
    assert main(["draw", str(tmp_path / "x"), str(tmp_path / "x.html")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


def test_times_on_the_way_are_moments_where_a_link_begins() -> None:
    packet = bytes.fromhex("01 00 b0 00 02 00 00 c0 78 00 01 80 00 00 00 00") + bytes(8 * 9)
    ways = ("h1:1->sw0:1", "sw0:2->sw1:1", "sw1:2->h2:1")
    records = [TracedPacket(7 + number * 12.3e-6, way, packet, None) for number, way in enumerate(ways)]
    (journey,) = journeys(records)
    svg = way_drawing(journey).document("x")
    times = [
        (float(x), said)
        for x, said in re.findall(r'<text x="([\d.]+)"[^>]*>(?:<title>[^<]*</title>)?(at [^<]+)<', svg)
    ]
    assert [said for _, said in times] == ["at 0.00 us", "at 12.30 us", "at 24.60 us"]
    boxes = [
        (float(x), float(wide))
        for x, wide in re.findall(r'<rect x="([\d.]+)"[^>]* width="([\d.]+)"[^>]*data-node', svg)
    ]
    ends = [x + wide for x, wide in boxes]
    assert all(0 < x - end < 10 for (x, _), end in zip(times, ends, strict=False))
    assert "+" not in re.findall(r"<table.*?</table>", packet_page([journey], "x"), flags=re.S)[0]


DIRECTIONS = st.sampled_from(["h1:1->sw0:1", "sw0:1->h1:1", "sw0:2->h2:1", "eth", "->", "a->b"])
RECORDS = st.builds(
    TracedPacket,
    time_s=st.floats(0, 1e6),
    direction=DIRECTIONS,
    packet=st.binary(max_size=80),
    drop=st.none() | st.sampled_from(Drop),
)


@given(st.lists(RECORDS, max_size=30))
def test_any_bytes_give_a_page(records: list[TracedPacket]) -> None:
    found = journeys(records)
    assert sum(len(journey.hops) for journey in found) == len(records)
    for drawing in re.findall(r"<svg.*?</svg>", packet_page(found, "x"), flags=re.S):
        ElementTree.fromstring(drawing)  # noqa: S314 - drawn here
