"""Which addresses a VNIC reports: what speaks here, and not what its MAC table has elsewhere."""

from __future__ import annotations

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.types import MacAddr
from opavnic.vnic.speakers import AGEING_S, MAX_SPEAKERS, Speakers
from unit.opavnic.vnic.vnic_bench import VnicBench, config, eth, netdev_of
from vema.attributes.mac_entries import MacEntry
from vema.base.types import TABLE_REWRITTEN, TrapOpcode

HERE, THERE = 2, 9
SHARED = MacAddr(bytes.fromhex("00005e000107"))
GUEST = MacAddr(bytes.fromhex("02420a090264"))
GROUP = MacAddr(bytes.fromhex("01005e000001"))


def numbered(n: int) -> MacAddr:
    return MacAddr(b"\x02\x11\0\0" + n.to_bytes(2, "big"))


def test_source_of_a_frame_is_listed_once_and_a_group_or_zero_never() -> None:
    speakers = Speakers()
    assert speakers.heard(GUEST, (), 0.0)
    assert not speakers.heard(GUEST, (), 0.0)
    assert not speakers.heard(GROUP, (), 0.0)
    assert not speakers.heard(MacAddr(bytes(6)), (), 0.0)
    assert speakers.listed([SHARED]) == [SHARED, GUEST]
    assert speakers.quiet([SHARED]) == {SHARED, GUEST}


def test_address_that_is_elsewhere_comes_back_when_it_speaks_after_the_list_was_read() -> None:
    speakers = Speakers()
    assert speakers.table_changed({SHARED: THERE}, HERE, [SHARED], 0.0)
    assert speakers.listed([SHARED]) == []
    assert SHARED not in speakers.quiet([SHARED])
    assert not speakers.heard(SHARED, [SHARED], 1.0)
    assert speakers.listed([SHARED]) == []
    assert speakers.was_read([SHARED], 1.0)
    assert speakers.listed([SHARED]) == [SHARED]
    assert not speakers.table_changed({SHARED: THERE, GUEST: 7}, HERE, [SHARED], 2.0)
    assert speakers.table_changed({SHARED: 7}, HERE, [SHARED], 3.0)
    assert speakers.listed([SHARED]) == []
    assert not speakers.was_read([SHARED], 3.0)
    assert speakers.heard(SHARED, [SHARED], 4.0)


def test_address_that_no_port_has_any_more_comes_back_without_a_frame() -> None:
    speakers = Speakers()
    speakers.table_changed({SHARED: THERE}, HERE, [SHARED], 0.0)
    assert speakers.table_changed({}, HERE, [SHARED], 1.0)
    assert speakers.listed([SHARED]) == [SHARED]


def test_address_that_is_new_on_the_host_and_elsewhere_has_to_speak_first() -> None:
    speakers = Speakers()
    speakers.table_changed({SHARED: THERE}, HERE, [], 0.0)
    speakers.own_changed((), [SHARED])
    assert speakers.listed([SHARED]) == []
    assert speakers.heard(SHARED, [SHARED], 1.0)
    assert speakers.listed([SHARED]) == [SHARED]


def test_address_that_the_host_gives_up_is_forgotten() -> None:
    speakers = Speakers()
    speakers.heard(SHARED, [SHARED], 0.0)
    speakers.heard(GUEST, [SHARED], 0.0)
    speakers.own_changed([SHARED, GUEST], ())
    assert speakers.listed([]) == []


def test_source_that_is_silent_ages_and_one_that_speaks_stays() -> None:
    speakers = Speakers()
    for mac in (GUEST, SHARED):
        speakers.heard(mac, (), 0.0)
    speakers.sweep(1.0)
    assert speakers.quiet(()) == frozenset()
    assert not speakers.heard(SHARED, (), AGEING_S / 2)
    assert speakers.sweep(AGEING_S + 1.0) == (True, True)
    assert speakers.listed(()) == [SHARED]


def test_sources_beyond_the_limit_are_not_listed() -> None:
    speakers = Speakers()
    assert all(speakers.heard(numbered(n), (), 0.0) for n in range(MAX_SPEAKERS))
    assert not speakers.heard(numbered(MAX_SPEAKERS), (), 0.0)
    assert len(speakers.listed(())) == MAX_SPEAKERS


def test_claim_that_the_table_does_not_follow_is_repeated_with_the_next_frame_after_a_poll() -> None:
    speakers = Speakers()
    speakers.table_changed({GUEST: THERE}, HERE, (), 0.0)
    assert speakers.heard(GUEST, (), 0.0)
    assert not speakers.heard(GUEST, (), 1.0)
    assert speakers.sweep(2.0) == (False, True)
    assert speakers.heard(GUEST, (), 3.0)
    assert speakers.listed(()) == []
    assert speakers.was_read((), 3.0)
    assert speakers.listed(()) == [GUEST]


def test_vnic_reports_the_source_of_a_frame_with_one_trap_and_its_own_address_with_none() -> None:
    clock = ManualClock()
    bench = VnicBench(clock=clock)
    adapter, netdev = bench.add(1, config())
    assert netdev.transmit(eth(source=netdev.address))
    assert bench.reports == []
    before = adapter.port_info.uc_macs_gen_count
    for _ in range(3):
        assert netdev.transmit(eth(source=GUEST))
    clock.advance()
    assert bench.reports == [(1, TrapOpcode.UCAST_MACS_CHANGED)]
    assert list(adapter.ucast_macs()[0]) == [GUEST]
    assert adapter.port_info.uc_macs_gen_count == before + 1


def test_first_frame_from_an_address_that_the_em_has_given_is_no_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel announces a new address at once: before the VNIC has taken in that it is its own."""
    clock = ManualClock()
    bench = VnicBench(clock=clock)
    adapter, netdev = bench.add(1, config())
    set_address = netdev.set_address

    def announced(mac: MacAddr) -> None:
        set_address(mac)
        assert netdev.transmit(eth(source=mac))

    monkeypatch.setattr(netdev, "set_address", announced)
    adapter.apply(config(base_mac=GUEST))
    clock.advance()
    assert bench.reports == []
    assert list(adapter.ucast_macs()[0]) == []


def test_vnic_follows_its_table_but_not_one_that_is_being_rewritten() -> None:
    bench = VnicBench(clock=ManualClock())
    adapter, netdev = bench.add(1, config())
    netdev.set_uc_list([SHARED])
    entry = MacEntry(SHARED, b"\xff" * 6, THERE << 8)
    adapter.update_mac_table(0, [entry], TABLE_REWRITTEN)
    assert list(adapter.ucast_macs()[0]) == [SHARED]
    adapter.update_mac_table(0, [entry], 77)
    assert list(adapter.ucast_macs()[0]) == []
    adapter.apply(config(vesw_id=6))
    assert list(adapter.ucast_macs()[0]) == [SHARED]


def test_quirk_driver_reports_the_addresses_of_its_netdev_alone() -> None:
    bench = VnicBench(driver_quirks=True, clock=ManualClock())
    adapter, netdev = bench.add(1, config())
    assert netdev_of(adapter).transmit(eth(source=GUEST))
    netdev.set_uc_list([SHARED])
    adapter.update_mac_table(0, [MacEntry(SHARED, b"\xff" * 6, THERE << 8)], 77)
    assert list(adapter.ucast_macs()[0]) == [SHARED]
    assert adapter.quiet is None
