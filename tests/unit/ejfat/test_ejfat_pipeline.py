"""What the vectors do not ask: any bytes, the versions side by side, counters, sensible readings of short lengths."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from ejfat.base.drops import LbDrop, Reply
from ejfat.control.grpc.stats import Metrics
from ejfat.pipeline import Pipeline
from ejfat.tables.schema import Dialect, Op, Update
from ejfat.tables.script import load_script
from ejfat.wire.layers import UDPLB, UDPLB2, UDPLB3
from unit.ejfat.pipelines import IMPLEMENTATIONS, build

VECTORS = Path(__file__).parents[2] / "vectors" / "ejfat"
LB_MAC = "02:00:00:00:00:01"
SCRIPT = """
table_add dst_filter_table NoAction 0x020000000001 0x0800 0x0a000001 =>
table_add epoch_assign_table do_assign_epoch 0/0 => 1 64
table_add load_balance_calendar_table do_assign_member 1 5 => 9
table_add member_info_lookup_table do_ipv4_member_rewrite 0x0800 9 => 0x020000000009 0x0a000009 1111
table_add mac_dst_filter_table set_mac_sa 0&&&0 0x020000000001 => 0x020000000001 0
table_add ip_dst_filter_table set_ip_sa 0&&&0 0x0800 0x0a000001 => 0x0a000001 2 0
table_add ip_dst_filter_table set_ip_sa 0&&&0 0x0806 0x0a000001 => 0x0a000001 2 0
table_add ipv4_src_filter_table allow_ip_src 2 0x0a000002 =>
table_add epoch_assign_table do_assign_epoch 2 0/0 => 1 0
table_add load_balance_calendar_table do_assign_member 2 1 5 => 7
table_add load_balance_calendar_table do_assign_member 2 1 6 => 8
table_add member_info_lookup_table do_ipv4_member_rewrite 2 0x0800 7 => 0x020000000007 0x0a000007 2000 2 0
table_add member_info_lookup_table do_ipv4_member_rewrite 2 0x0800 8 => 0x020000000008 0x0a000008 65535 4 1
"""


def frame(lb: Any, *, src: str = "10.0.0.2", ttl: int = 9, sport: int = 5000) -> bytes:
    return bytes(
        Ether(src="02:00:00:00:00:02", dst=LB_MAC)
        / IP(src=src, dst="10.0.0.1", ttl=ttl)
        / UDP(sport=sport, dport=19522)
        / lb
        / Raw(b"payload")
    )


@pytest.fixture(params=IMPLEMENTATIONS)
def pipeline(request: pytest.FixtureRequest) -> Pipeline:
    return build(request.param, load_script(SCRIPT))


def forwarded(pipeline: Pipeline, data: bytes) -> Any:
    verdict = pipeline.process(data)
    assert verdict.frame is not None, verdict.drop
    packet = Ether(verdict.frame)
    rebuilt = packet.copy()
    del rebuilt[IP].chksum, rebuilt[IP].len, rebuilt[UDP].chksum, rebuilt[UDP].len
    assert bytes(rebuilt) == verdict.frame, "lengths and checksums are what scapy computes"
    return packet


def test_versions_side_by_side_go_to_members_of_their_own_tables(pipeline: Pipeline) -> None:
    v1 = forwarded(pipeline, frame(UDPLB(tick=5)))
    v2 = forwarded(pipeline, frame(UDPLB2(tick=5, entropy=7)))
    v3 = forwarded(pipeline, frame(UDPLB3(tick=99, slot_select=6, port_select=3)))
    assert [(p[IP].src, p[IP].dst, p[IP].ttl, p[UDP].dport) for p in (v1, v2, v3)] == [
        ("10.0.0.2", "10.0.0.9", 9, 1111),
        ("10.0.0.1", "10.0.0.7", 8, 2003),
        ("10.0.0.1", "10.0.0.8", 8, 2),
    ]
    assert bytes(v1[UDP].payload) == bytes(v2[UDP].payload) == b"payload"
    assert bytes(v3[UDP].payload) == bytes(UDPLB3(tick=99, slot_select=6, port_select=3)) + b"payload"
    assert {lb: (c.rx_v1, c.rx_v2, c.rx_v3) for lb, c in pipeline.counters.lbs.items()} == {
        0: (1, 0, 0),
        2: (0, 1, 1),
    }
    assert {m: c.tx_packets for m, c in pipeline.counters.members.items()} == {9: 1, 7: 1, 8: 1}


def test_drop_is_counted_with_its_reason_on_the_instance(pipeline: Pipeline) -> None:
    assert pipeline.process(frame(UDPLB2(tick=5), src="10.0.0.3")).drop is LbDrop.SRC_BLOCKED
    assert pipeline.process(frame(UDPLB2(tick=5), ttl=1)).drop is LbDrop.TTL
    assert pipeline.process(frame(UDPLB2(tick=4))).drop is LbDrop.CALENDAR_MISS
    assert pipeline.counters.lbs[2].drops == {LbDrop.SRC_BLOCKED: 1, LbDrop.TTL: 1, LbDrop.CALENDAR_MISS: 1}
    assert pipeline.counters.dropped == 3
    assert LbDrop.SRC_BLOCKED.stage == "src_filter"


GONE = """
table_add load_balance_calendar_table do_assign_member 2 1 1 => 11
table_add load_balance_calendar_table do_assign_member 2 1 2 => 12
table_add member_info_lookup_table drop_soft_evicted 2 0x0800 11 =>
table_add member_info_lookup_table drop_deregistered 2 0x0800 12 =>
"""


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_packets_dropped_for_members_that_have_gone_are_counted_by_member_and_shown_over_p4(
    implementation: str,
) -> None:
    pipeline = build(implementation, load_script(SCRIPT + GONE))
    for tick in (1, 2, 2, 5):
        pipeline.process(frame(UDPLB2(tick=tick)))
    values = dict(Metrics(lambda: pipeline.counters).read())
    shown = {
        name: {index: count for index, count in enumerate(values[f"lb_mbr_{name}_counter"]) if count}
        for name in ("tx_pkt", "drop_soft_evicted", "drop_deregistered")
    }
    assert shown == {"tx_pkt": {7: 1}, "drop_soft_evicted": {11: 1}, "drop_deregistered": {12: 2}}
    assert pipeline.counters.lbs[2].drops == {LbDrop.MEMBER_SOFT_EVICTED: 1, LbDrop.MEMBER_DEREGISTERED: 2}


def test_arp_for_the_load_balancer_is_answered(pipeline: Pipeline) -> None:
    from scapy.layers.l2 import ARP

    line = "table_add mac_dst_filter_table set_mac_sa 0&&&0 0xffffffffffff => 0x020000000001"
    (broadcast,) = load_script(line).v23["mac_dst_filter_table"]
    pipeline.tables.apply([Update(Op.PUT, Dialect.V23, "mac_dst_filter_table", broadcast)])
    request = Ether(src="02:00:00:00:00:02", dst="ff:ff:ff:ff:ff:ff") / ARP(
        op=1, hwsrc="02:00:00:00:00:02", psrc="10.0.0.2", pdst="10.0.0.1"
    )
    reply = Ether(pipeline.process(bytes(request)).frame)[ARP]
    assert (reply.op, reply.hwsrc, reply.psrc, reply.hwdst, reply.pdst) == (
        2,
        LB_MAC,
        "10.0.0.1",
        "02:00:00:00:00:02",
        "10.0.0.2",
    )
    assert pipeline.counters.replies == {Reply.ARP: 1}


@pytest.mark.parametrize("lb", [UDPLB(tick=5), UDPLB2(tick=5), UDPLB3(tick=5, slot_select=6)])
@pytest.mark.parametrize("field", [(16, 2), (38, 2)])
def test_length_below_the_headers_is_dropped_not_wrapped(
    pipeline: Pipeline, lb: Any, field: tuple[int, int]
) -> None:
    data = bytearray(frame(lb))
    at, size = field
    data[at : at + size] = b"\0\x13"
    assert pipeline.process(bytes(data)).drop is LbDrop.PARSER_BAD_LENGTH


@pytest.mark.parametrize("lb", [UDPLB(tick=5), UDPLB2(tick=5)])
def test_later_fragment_is_dropped(pipeline: Pipeline, lb: Any) -> None:
    data = bytearray(frame(lb))
    data[20:22] = b"\x00\x01"
    assert pipeline.process(bytes(data)).drop is LbDrop.PARSER_FRAGMENT


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_member_of_the_other_family_is_dropped(implementation: str) -> None:
    tables = load_script(SCRIPT)
    for dialect, table in tables:  # a script cannot say it, a foreign control plane can
        if table.spec.name == "member_info_lookup_table":
            for entry in list(table):
                other = replace(entry, action="do_ipv6_member_rewrite")
                tables.apply([Update(Op.PUT, dialect, table.spec.name, other)])
    pipeline = build(implementation, tables)
    assert pipeline.process(frame(UDPLB(tick=5))).drop is LbDrop.MEMBER_FAMILY
    assert pipeline.process(frame(UDPLB2(tick=5))).drop is LbDrop.MEMBER_FAMILY


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def everything(request: pytest.FixtureRequest) -> tuple[Pipeline, list[bytes]]:
    """A pipeline with the vectors' tables, and all their frames."""
    frames: list[bytes] = []
    tables = None
    for name in ("v1-1.json.gz", "v23-1.json.gz"):
        data = json.loads(gzip.decompress((VECTORS / name).read_bytes()))
        tables = load_script("\n".join(data["tables"]), tables=tables)
        frames += [bytes.fromhex(vector["in"]) for vector in data["vectors"]]
    return build(request.param, tables), frames


@given(data=st.data())
def test_damaged_frame_is_out_or_counted_never_an_exception(
    everything: tuple[Pipeline, list[bytes]], data: st.DataObject
) -> None:
    pipeline, frames = everything
    raw = bytearray(data.draw(st.sampled_from(frames)))
    for _ in range(data.draw(st.integers(0, 4))):
        if raw:
            raw[data.draw(st.integers(0, min(len(raw), 90) - 1))] = data.draw(st.integers(0, 255))
    pipeline.process(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    assert pipeline.counters.balance == 0


@given(raw=st.binary(max_size=120))
def test_any_bytes_are_out_or_counted(everything: tuple[Pipeline, list[bytes]], raw: bytes) -> None:
    pipeline, _ = everything
    verdict = pipeline.process(raw)
    assert (verdict.frame is None) == (verdict.drop is not None)
    assert pipeline.counters.balance == 0


@pytest.mark.parametrize("version", [2, 3])
def test_packet_whose_ttl_is_used_up_is_counted_under_its_version(pipeline: Pipeline, version: int) -> None:
    lb = UDPLB2(tick=5) if version == 2 else UDPLB3(tick=5, slot_select=5)
    assert pipeline.process(frame(lb, ttl=1)).drop is LbDrop.TTL
    counters = pipeline.counters.lbs[2]
    assert (counters.rx_v2, counters.rx_v3) == ((1, 0) if version == 2 else (0, 1))
