"""Counters: size classes, sums, names."""

from __future__ import annotations

import pytest

from opavnic.vnic.counters import SIZE_NAMES, TrafficCounters, VnicCounters, group_of


@pytest.mark.parametrize(("length", "name"), [
    (0, "64"), (60, "64"), (61, "65_127"), (123, "65_127"), (124, "128_255"), (251, "128_255"), (252, "256_511"),
    (507, "256_511"), (508, "512_1023"), (1019, "512_1023"), (1020, "1024_1518"), (1514, "1024_1518"),
    (1515, "1519_max"), (9014, "1519_max"),
])  # fmt: skip
def test_size_class_goes_by_length_with_fcs(length: int, name: str) -> None:
    traffic = TrafficCounters()
    traffic.count_attempt(length)
    assert traffic.sizes == [int(other == name) for other in SIZE_NAMES]
    assert (traffic.packets, traffic.bytes) == (1, length + 4)


@pytest.mark.parametrize(("dest", "tag", "kinds"), [
    ("02", "0800", (1, 0, 1, 0)), ("01", "0800", (0, 1, 1, 0)), ("ff", "8100", (0, 1, 0, 1)),
    ("02", "88a8", (1, 0, 0, 1)),
])  # fmt: skip
def test_good_frame_counts_by_kind_and_tag(dest: str, tag: str, kinds: tuple[int, ...]) -> None:
    traffic = TrafficCounters()
    traffic.count_good(bytes.fromhex(dest) + bytes(11) + bytes.fromhex(tag) + bytes(50))
    assert tuple(group_of("tx", traffic).values())[:4] == kinds
    assert sum(traffic.sizes) == traffic.packets == 1


def test_sums_are_those_of_the_driver() -> None:
    counters = VnicCounters()
    for number, name in enumerate(("tx_fifo_errors", "tx_carrier_errors", "tx_drop_state", "tx_dlid_zero")):
        setattr(counters, name, 10**number)
    counters.tx_smac_filt = 5
    for number, name in enumerate(
        ("rx_fifo_errors", "rx_nohandler", "rx_drop_state", "rx_oversize", "rx_runt")
    ):
        setattr(counters, name, 10**number)
    assert (counters.tx_errors, counters.rx_errors) == (1111, 11111)
    stats = counters.ethtool_stats()
    assert (stats["rx_dropped"], stats["tx_dropped"], stats["rx_length_errors"]) == (11111, 1111, 11000)


def test_ethtool_names_stand_in_the_drivers_order() -> None:
    group = ["unicast", "mcastbcast", "untagged", "vlan", "64_size", *SIZE_NAMES[1:]]
    assert list(VnicCounters().ethtool_stats()) == [
        "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
        *(f"tx_{name}" for name in group), *(f"rx_{name}" for name in group),
        "rx_fifo_errors", "rx_length_errors", "tx_fifo_errors", "tx_carrier_errors", "tx_dlid_zero",
        "tx_drop_state", "rx_drop_state", "rx_oversize", "rx_runt",
    ]  # fmt: skip
