"""The native pipeline against the reference: any tables, any frames; the same bytes, drops and counters."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.base.drops import LbDrop, PipelineCounters
from ejfat.base.errors import BadRequestError, EjfatError
from ejfat.pipeline import Pipeline
from ejfat.pipeline import native as native_module
from ejfat.pipeline.native import NativePipeline, make_pipeline
from ejfat.tables.match_action import Entry, KeyMatch, MatchKind, TableField, TableSpec
from ejfat.tables.schema import V1_SPECS, V23_SPECS, Dialect, Op, TableSet, Update
from ejfat.tables.script import load_script
from native_module import needs_native

pytestmark = needs_native
VECTORS = Path(__file__).parents[2] / "vectors" / "ejfat"

# few values, so that random frames hit random entries
MACS = [0x020000000001, 0x0180C2000000, 0xFFFFFFFFFFFF]
IPV4 = [0x0A000001, 0x0A000002, 0xFFFFFFFF, 0]
IPV6 = [0xFE80 << 112 | 1, 0xFE80 << 112 | 2, (1 << 128) - 1]
TICKS = [0, 1, 5, 511, 512, 1 << 32, (1 << 64) - 1]
TYPES = [0x0800, 0x86DD, 0x0806, 0x8100]
VALUES: dict[str, list[int]] = {
    "eth_dst": MACS,
    "mac": MACS,
    "ether_type": TYPES,
    "ip_dst": [*IPV4, *IPV6],
    "ip_src": IPV4,
    "ip": IPV4,
    "tick": TICKS,
    "epoch": [0, 1, 0xFFFFFFFF],
    "slot": [0, 1, 5, 511, 0x1FF],
    "member_id": [0, 1, 0xFFFF],
    "lb_id": [0, 1, 7],
    "iface": [0, 1],
    "vlan_id": [0, 7, 0xFFF],
    "port": [0, 5000, 0xFFFF],
    "port_base": [0, 5000, 0xFFFF],
    "port_select_bits": [0, 3, 16, 31],
    "slot_select_bits": [0, 3, 9, 16, 31],
    "slot_select_xor": [0, 5, 0xFFFF],
    "keep_lb_header": [0, 1],
}


def value(name: str, width: int) -> st.SearchStrategy[int]:
    known = [number for number in VALUES[name] if number < 1 << width]
    if width == 128:
        known = [*known, *IPV6]
    return st.sampled_from(known)


@st.composite
def match(draw: st.DrawFn, key: TableField) -> KeyMatch:
    number = draw(value(key.name, key.width))
    if key.kind is MatchKind.LPM:
        length = draw(st.sampled_from([0, 1, 32, 55, 60, 63, 64]))
        return KeyMatch(number, key.full_mask ^ (key.full_mask >> length))
    if key.kind is MatchKind.FIELD_MASK:
        return KeyMatch(number, draw(st.sampled_from([0, 1, key.full_mask])))
    return KeyMatch(number, key.full_mask)


@st.composite
def entry(draw: st.DrawFn, spec: TableSpec) -> Entry:
    matches = tuple(draw(match(key)) for key in spec.keys)
    action = draw(st.sampled_from(sorted(spec.actions)))
    args = tuple(draw(value(param.name, param.width)) for param in spec.actions[action])
    return Entry(matches, action, args, draw(st.integers(0, 3)))


@st.composite
def tables(draw: st.DrawFn) -> TableSet:
    result = TableSet()
    for dialect, specs in ((Dialect.V1, V1_SPECS), (Dialect.V23, V23_SPECS)):
        if draw(st.integers(0, 4)) == 0:
            continue  # a pipeline that is not used
        for spec in specs:
            entries = draw(st.lists(entry(spec), max_size=12))
            result.apply(Update(Op.PUT, dialect, spec.name, item) for item in entries)
    return result


def lb_header(version: int, tick: int, select: int) -> bytes:
    front = struct.pack(">HBB", 0x4C42, version, 1)
    return front + (b"" if version == 1 else struct.pack(">HH", select, select)) + struct.pack(">Q", tick)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A frame that would pass some table, often damaged."""
    header = lb_header(
        draw(st.sampled_from([1, 2, 3, 4])), draw(st.sampled_from(TICKS)), draw(st.sampled_from([0, 5]))
    )
    payload = header + draw(st.binary(max_size=5))
    port = draw(st.sampled_from([0x4C42, 0x4C42, 0x4000, 80]))
    udp = struct.pack(">HHHH", 1000, port, 8 + len(payload), draw(st.sampled_from([0, 0x1234, 0xFFFF])))
    udp += payload
    ttl = draw(st.sampled_from([0, 1, 2, 64]))
    if draw(st.booleans()):
        options = bytes(4 * draw(st.sampled_from([0, 0, 1, 10])))
        first = 0x45 + len(options) // 4
        addresses = [draw(st.sampled_from(IPV4)) for _ in range(2)]
        ip = struct.pack(
            ">BBHHHBBHII", first, 0, 20 + len(options) + len(udp), 1, 0, ttl, 17, 0x4321, *addresses
        )
        kind, packet = 0x0800, ip + options + udp
    else:
        ip = struct.pack(">IHBB", 6 << 28, len(udp), 17, ttl)
        ends = b"".join(draw(st.sampled_from(IPV6)).to_bytes(16, "big") for _ in range(2))
        kind, packet = 0x86DD, ip + ends + udp
    tag = (
        struct.pack(">HH", 0x8100, draw(st.sampled_from([0, 7, 0xFFF])))
        if draw(st.integers(0, 5)) == 0
        else b""
    )
    mac = draw(st.sampled_from(MACS)).to_bytes(6, "big")
    raw = bytearray(mac + b"\x02\0\0\0\0\x09" + tag + kind.to_bytes(2, "big") + packet)
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    return bytes(raw[: draw(st.integers(0, len(raw)))] if draw(st.integers(0, 5)) == 0 else raw)


def plain(counters: PipelineCounters) -> dict[str, Any]:
    return {name: getattr(counters, name) for name in PipelineCounters.__dataclass_fields__}


@given(
    tables(), st.lists(st.one_of(frames(), st.binary(max_size=90)), min_size=1, max_size=30), st.booleans()
)
def test_any_tables_and_frames_give_the_same_bytes_drops_and_counters(
    given_tables: TableSet, given_frames: list[bytes], guard_v1: bool
) -> None:
    reference, native = Pipeline(given_tables), NativePipeline(given_tables)
    for pipeline in (reference, native):
        pipeline.serve(range(0), guard_v1=guard_v1)
    expected = [reference.process(frame) for frame in given_frames]
    assert [native.process(frame) for frame in given_frames] == expected
    assert plain(native.counters) == plain(reference.counters)
    assert native.counters.balance == 0


def vectors() -> tuple[TableSet, list[bytes]]:
    """The tables of both vector files, and all their frames: these reach every stage."""
    frames, tables = [], None
    for name in ("v1-1.json.gz", "v23-1.json.gz"):
        data = json.loads(gzip.decompress((VECTORS / name).read_bytes()))
        tables = load_script("\n".join(data["tables"]), tables=tables)
        frames += [bytes.fromhex(vector["in"]) for vector in data["vectors"]]
    assert tables is not None
    return tables, frames


@pytest.fixture(scope="module")
def both() -> tuple[Pipeline, NativePipeline, list[bytes]]:
    tables, frames = vectors()
    return Pipeline(tables), NativePipeline(tables), frames


@given(data=st.data())
def test_damaged_vectors_have_the_same_verdict_and_counters(
    both: tuple[Pipeline, NativePipeline, list[bytes]], data: st.DataObject
) -> None:
    reference, native, known = both
    for _ in range(20):
        raw = bytearray(data.draw(st.sampled_from(known)))
        for _ in range(data.draw(st.sampled_from([0, 1, 1, 2, 4]))):
            if raw:
                raw[data.draw(st.integers(0, min(len(raw), 90) - 1))] = data.draw(st.integers(0, 255))
        frame = bytes(
            raw[: data.draw(st.sampled_from([len(raw), len(raw), data.draw(st.integers(0, len(raw)))]))]
        )
        assert native.process(frame) == reference.process(frame), frame.hex()
    assert plain(native.counters) == plain(reference.counters)


def exact(spec_name: str, *values: int) -> tuple[KeyMatch, ...]:
    spec = {spec.name: spec for spec in V1_SPECS}[spec_name]
    return tuple(KeyMatch(number, key.full_mask) for number, key in zip(values, spec.keys, strict=True))


def test_change_of_tables_is_whole_and_a_refused_one_is_none() -> None:
    pipeline = NativePipeline()

    def update(op: Op, name: str, matches: tuple[KeyMatch, ...], action: str, *args: int) -> Update:
        return Update(op, Dialect.V1, name, Entry(matches, action, args))

    lets_in = update(Op.PUT, "dst_filter_table", exact("dst_filter_table", 1, 0x0800, 0x0A000001), "NoAction")
    epoch = update(Op.PUT, "epoch_assign_table", (KeyMatch(0, 0),), "do_assign_epoch", 3)
    pipeline.tables.apply([lets_in, epoch])
    packet = struct.pack(">BBHHHBBHII", 0x45, 0, 40, 0, 0, 9, 17, 0, 2, 0x0A000001)
    packet += struct.pack(">HHHH", 1, 0x4C42, 20, 0) + lb_header(1, 7, 0)
    frame = (1).to_bytes(6, "big") + bytes(6) + b"\x08\x00" + packet
    assert pipeline.process(frame).drop is LbDrop.CALENDAR_MISS
    gone = update(Op.DELETE, "epoch_assign_table", (KeyMatch(0, 0),), "drop")
    with pytest.raises(EjfatError):
        pipeline.tables.apply([gone, gone])
    assert pipeline.process(frame).drop is LbDrop.CALENDAR_MISS
    pipeline.tables.clear(Dialect.V1, ["dst_filter_table"])
    assert pipeline.process(frame).drop is LbDrop.PARSER_BAD_VERSION, "it goes to the other pipeline now"


def test_choice_falls_back_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_pipeline("auto").backend == "native"
    assert make_pipeline("python").backend == "python"
    monkeypatch.setattr(native_module, "load_native", lambda: None)
    choice = make_pipeline("auto")
    assert (choice.backend, choice.reason) == (
        "python",
        "the native pipeline is not built here; install a wheel, or from source with cargo on PATH "
        "(in a checkout: make native)",
    )
    with pytest.raises(BadRequestError, match="is not built here"):
        make_pipeline("native")
