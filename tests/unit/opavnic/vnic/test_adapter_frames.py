"""Frames through the adapter: each one is sent, delivered, or counted in exactly one drop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.counters import Drop
from hfi_sim.base.types import MacAddr
from hfi_sim.wire.lrh16b import Lrh16B
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.flow import entropy_of, flow_hash
from unit.opavnic.vnic.vnic_bench import BROADCAST, ICRC, PEER_LID, VnicBench, assert_law, config, eth, packet
from vema.attributes.counters import FRAMES, ErrorCounters, SummaryCounters
from vema.attributes.mac_entries import MacEntry

SOURCE = MacAddr(b"\x02\0\0\0\0\1")


def source_entry(mac: bytes) -> MacEntry:
    return MacEntry(MacAddr(mac), b"\xff" * 6, 0x20)


def drops(adapter: Adapter) -> dict[Drop, int]:
    return adapter.tx.drops | adapter.rx.drops


# sending


def test_frame_is_sent_with_its_header_and_counted() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    netdev.transmit(eth(size=100))
    (sent,) = bench.sent
    assert sent[20:] == eth(size=100)
    assert int.from_bytes(sent[4:6], "little") == PEER_LID
    stats = adapter.counters.ethtool_stats()
    assert (stats["tx_packets"], stats["tx_bytes"], stats["tx_unicast"], stats["tx_65_127"]) == (1, 104, 1, 1)
    assert_law(adapter)


def test_short_frame_is_padded_with_zeros_to_60() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    netdev.transmit(eth(size=42))
    assert bench.sent[0][20:] == eth(size=42) + bytes(18)
    assert adapter.counters.tx.bytes == 64


@pytest.mark.parametrize("size", [0, 13, 16352, 20000])
def test_frame_of_an_impossible_size_is_dropped(size: int) -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    netdev.transmit(bytes(size))
    assert (bench.sent, drops(adapter)) == ([], {Drop.VNIC_TX_MALFORMED: 1})
    assert_law(adapter)


def test_longest_frame_is_sent() -> None:
    bench = VnicBench()
    _, netdev = bench.add(1, config())
    netdev.transmit(eth(size=16351))
    assert len(bench.sent) == 1


@pytest.mark.parametrize("why", ["carrier", "dormant"])
def test_frame_while_not_operational_counts_header_and_metadata(why: str) -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    if why == "carrier":
        adapter.port_changed(False)
    else:
        adapter.apply(config(config_state=1))
    netdev.transmit(eth(size=100))
    assert (bench.sent, drops(adapter)) == ([], {Drop.VNIC_TX_STATE: 1})
    stats = adapter.counters.ethtool_stats()
    assert (stats["tx_drop_state"], stats["tx_errors"], stats["tx_packets"], stats["tx_bytes"]) == (
        1,
        1,
        1,
        128,
    )
    assert stats["tx_128_255"] == 1
    assert stats["tx_unicast"] == stats["tx_untagged"] == 0
    assert_law(adapter)


def test_frame_without_a_destination_counts_the_header() -> None:
    adapter, netdev = VnicBench().add(1, config())
    netdev.transmit(eth(bytes.fromhex("001122334455")))
    stats = adapter.counters.ethtool_stats()
    assert (stats["tx_dlid_zero"], stats["tx_bytes"], stats["tx_unicast"]) == (1, 84, 0)
    assert drops(adapter) == {Drop.VNIC_TX_DLID: 1}
    assert_law(adapter)


def test_frame_that_the_port_refuses_is_a_carrier_error_and_no_drop_here() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    bench.hfi.refusal = Drop.TX_PORT_DOWN
    netdev.transmit(eth())
    stats = adapter.counters.ethtool_stats()
    assert (stats["tx_carrier_errors"], stats["tx_errors"], stats["tx_packets"], stats["tx_unicast"]) == (
        1,
        1,
        1,
        0,
    )
    assert drops(adapter) == {}
    assert_law(adapter)


# the source-MAC filter


def test_source_filter_refuses_other_addresses_once_there_are_source_entries() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    netdev.transmit(eth(source=SOURCE))
    adapter.update_mac_table(0, [source_entry(SOURCE)], 1)

    netdev.transmit(eth(source=SOURCE))
    assert len(bench.sent) == 2
    netdev.transmit(eth(source=b"\x02\0\0\0\0\2"))
    assert len(bench.sent) == 2
    assert drops(adapter) == {Drop.VNIC_TX_SMAC: 1}
    assert ErrorCounters.parse(adapter.read(ErrorCounters).build()).tx_smac_filt == 1
    assert adapter.counters.tx_errors == 0
    assert_law(adapter)

    adapter.update_mac_table(0, [None], 2)
    netdev.transmit(eth(source=b"\x02\0\0\0\0\2"))
    assert len(bench.sent) == 3


@pytest.mark.parametrize("bench", [VnicBench(driver_quirks=True), VnicBench(smac_filter=False)])
def test_source_entries_do_nothing_where_the_filter_is_off(bench: VnicBench) -> None:
    adapter, netdev = bench.add(1, config())
    adapter.update_mac_table(0, [source_entry(SOURCE)], 1)
    netdev.transmit(eth(source=b"\x02\0\0\0\0\2"))
    assert len(bench.sent) == 1


@pytest.mark.parametrize(("quirks", "shift"), [(False, 0), (True, 17)])
def test_quirk_entropy_is_made_of_15_bits_of_the_hash(quirks: bool, shift: int) -> None:
    bench = VnicBench(driver_quirks=quirks)
    _, netdev = bench.add(1, config())
    for number in range(50):
        netdev.transmit(eth(source=bytes((2, 0, 0, 0, 0, number))))
    assert [Lrh16B.parse(header).entropy for header in bench.sent] == [
        entropy_of(flow_hash(header[20:]) >> shift) for header in bench.sent
    ]


# receiving


@pytest.mark.parametrize("size", [60, 61, 64, 1514, 1518])
def test_frame_is_delivered_as_it_was_sent(size: int) -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    assert bench.demux.receive(packet(eth(size=size))) is None
    assert list(netdev.received) == [eth(size=size)]
    assert adapter.counters.rx.bytes == size + 4
    assert_law(adapter)


@pytest.mark.parametrize(("size", "name", "reason"), [
    (59, "rx_runt", Drop.VNIC_RX_RUNT), (14, "rx_runt", Drop.VNIC_RX_RUNT),
    (1519, "rx_oversize", Drop.VNIC_RX_OVERSIZE),
])  # fmt: skip
def test_frame_of_a_wrong_size_counts_bytes_and_size_but_no_kind(size: int, name: str, reason: Drop) -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    bench.demux.receive(packet(eth(size=size)))
    stats = adapter.counters.ethtool_stats()
    assert (stats[name], stats["rx_packets"], stats["rx_bytes"]) == (1, 1, size + 4)
    assert stats["rx_unicast"] == stats["rx_untagged"] == 0
    assert (list(netdev.received), drops(adapter)) == ([], {reason: 1})
    assert_law(adapter)


def test_size_limit_is_the_netdevs_mtu_of_now() -> None:
    bench = VnicBench()
    _, netdev = bench.add(1, config(eth_mtu=9000))
    netdev.change_mtu(9000)
    bench.demux.receive(packet(eth(size=9018)))
    assert len(netdev.received) == 1


def test_packet_while_not_operational_counts_nothing_else() -> None:
    bench = VnicBench()
    adapter, _ = bench.add(1, config())
    adapter.port_changed(False)
    bench.demux.receive(packet(eth()))
    stats = {name: count for name, count in adapter.counters.ethtool_stats().items() if count}
    assert stats == {"rx_errors": 1, "rx_dropped": 1, "rx_drop_state": 1}
    assert_law(adapter)


def test_frame_that_the_host_does_not_take_is_a_fifo_error() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    for _ in range(1025):
        bench.demux.receive(packet(eth()))
    assert len(netdev.received) == 1024
    assert (adapter.counters.rx_fifo_errors, adapter.counters.rx.packets) == (1, 1024)
    assert drops(adapter) == {Drop.VNIC_RX_HOST: 1}
    assert_law(adapter)


def test_quirk_packet_with_less_than_a_header_left_is_a_runt_of_that_length() -> None:
    bench = VnicBench()
    adapter, _ = bench.add(1, config())
    short = packet(b"")[:20] + b"\0\0\0\0\x07"
    bench.demux.receive(short)
    assert adapter.counters.rx_runt == 1
    assert adapter.counters.rx.bytes == len(short) - 12 + 4


def test_counters_of_the_agent_are_those_of_ethtool() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    netdev.transmit(eth(BROADCAST, kind=b"\x81\x00"))
    bench.demux.receive(packet(eth()))
    summary = SummaryCounters.parse(adapter.read(SummaryCounters).build())
    stats = adapter.counters.ethtool_stats()
    assert (summary.vport_num, summary.vesw_id, summary.opa_port_num) == (1, 5, 1)
    counts = [getattr(summary, name) for name in FRAMES if name.startswith("tx_")]
    assert counts[3:] == [count for name, count in stats.items() if name.startswith("tx_")][4:15]
    assert (summary.tx_mcastbcast, summary.tx_vlan, summary.rx_unicast) == (1, 1, 1)


# the demultiplexer


def test_packet_for_a_switch_nobody_is_on_counts_on_the_lowest_one_and_ends_at_the_port() -> None:
    bench = VnicBench()
    high, _ = bench.add(1, config(0x105))
    low, _ = bench.add(2, config(7))
    assert bench.demux.receive(packet(eth(), vesw_id=5)) is Drop.VNIC_NO_VESW
    assert (high.counters.rx_nohandler, low.counters.rx_nohandler) == (0, 1)
    assert low.counters.rx_errors == 1
    assert_law(low)


def test_quirk_packet_is_taken_by_the_low_8_bits_of_its_switch() -> None:
    bench = VnicBench(driver_quirks=True)
    adapter, netdev = bench.add(1, config(0x105))
    bench.add(2, config(7))
    assert bench.demux.receive(packet(eth(), vesw_id=5)) is None
    assert len(netdev.received) == 1
    assert bench.demux.receive(packet(eth(), vesw_id=6)) is Drop.VNIC_NO_VESW
    assert adapter.counters.rx_nohandler == 1


def test_high_bits_of_the_l4_header_name_no_other_switch() -> None:
    bench = VnicBench()
    _, netdev = bench.add(1, config())
    bench.demux.receive(packet(eth(), vesw_id=0xF005))
    assert len(netdev.received) == 1


def test_packet_where_no_vnic_is_up_ends_at_the_port() -> None:
    assert VnicBench().demux.receive(packet(eth())) is Drop.VNIC_NO_VESW


@pytest.mark.parametrize("data", [b"", bytes(19), packet(eth())[:8] + b"\x79" + packet(eth())[9:]])
def test_what_is_no_ethernet_packet_is_none_of_ours(data: bytes) -> None:
    bench = VnicBench()
    adapter, _ = bench.add(1, config())
    assert bench.demux.receive(data) is Drop.RX_L4
    assert not any(adapter.counters.ethtool_stats().values())


def test_255_vnics_on_one_port_see_their_own_frames_only() -> None:
    bench = VnicBench()
    netdevs = [bench.add(number, config(0x300 + number))[1] for number in range(1, 256)]
    for number in range(1, 256):
        bench.demux.receive(packet(eth(size=60 + number), vesw_id=0x300 + number))
    assert [[len(frame) for frame in netdev.received] for netdev in netdevs] == [
        [60 + n] for n in range(1, 256)
    ]


@given(
    st.lists(st.binary(max_size=80) | st.binary(min_size=60, max_size=1600), max_size=20), st.integers(0, 3)
)
def test_any_bytes_either_way_break_nothing_and_keep_the_law(frames: list[bytes], tail: int) -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config(def_port_mask=1, u_ucast_dlid=(4,) + (0,) * 15))
    for data in frames:
        netdev.transmit(data)
        bench.demux.receive(data)
        bench.demux.receive(packet(data)[: -tail or None])
    for sent in bench.sent:
        assert ICRC.check(packet(sent))
    assert_law(adapter)
