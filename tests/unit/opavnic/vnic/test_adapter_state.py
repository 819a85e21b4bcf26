"""The adapter between EM and host: configuration, addresses, states, generation counts, reports."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from hfi_sim.base.types import MacAddr
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.address_lists import list_hash
from unit.opavnic.vnic.vnic_bench import VnicBench, config
from vema.attributes.mac_entries import MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import ConfigState, TrapOpcode

UCAST, MCAST, LINK = (
    TrapOpcode.UCAST_MACS_CHANGED,
    TrapOpcode.MCAST_MACS_CHANGED,
    TrapOpcode.ETH_LINK_STATUS_CHANGED,
)
OWN = MacAddr(bytes.fromhex("02aabbccddee"))
OTHER = MacAddr(bytes.fromhex("021122334455"))


def gens(adapter: Adapter) -> tuple[int, int]:
    info = adapter.port_info
    return info.uc_macs_gen_count, info.mc_macs_gen_count


def state(adapter: Adapter) -> tuple[int, int]:
    info = adapter.port_info
    return info.oper_state, info.eth_link_status


# configuration


def test_read_only_fields_of_a_configuration_are_ignored() -> None:
    adapter, _ = VnicBench().add()
    adapter.apply(
        config(
            eth_link_status=9,
            oper_state=9,
            max_mac_tbl_ent=9,
            max_smac_ent=9,
            mac_tbl_digest=9,
            uc_macs_gen_count=9,
            mc_macs_gen_count=9,
            reserved_272=b"reserved",
        )
    )
    info = adapter.port_info
    assert (info.eth_link_status, info.oper_state, info.mac_tbl_digest) == (2, 1, 0)
    assert (info.max_mac_tbl_ent, info.max_smac_ent) == (2048, 256)
    assert gens(adapter) == (0, 0)
    assert info.reserved_272 == b"reserved"


@pytest.mark.parametrize("config_state", [0, 1, 2, 4, 255])
def test_any_config_state_but_forwarding_drops_and_is_given_back(config_state: int) -> None:
    adapter, netdev = VnicBench().add(1, config())
    adapter.apply(config(config_state=config_state))
    assert adapter.port_info.config_state == config_state
    assert state(adapter) == (1, 2)
    assert netdev.dormant


def test_forwarding_needs_the_host_too() -> None:
    adapter, netdev = VnicBench().add()
    adapter.apply(config())
    assert (state(adapter), netdev.dormant) == ((1, 2), False)
    netdev.open()
    assert state(adapter) == (3, 1)
    netdev.stop()
    assert state(adapter) == (1, 2)


def test_carrier_says_nothing_about_the_states() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    adapter.port_changed(False)
    assert (netdev.carrier, netdev.dormant, state(adapter)) == (False, False, (3, 1))
    assert bench.reports == []


def test_quirk_port_event_turns_the_carrier_of_a_closed_vnic_on() -> None:
    adapter, netdev = VnicBench().add()
    adapter.port_changed(True)
    assert netdev.carrier


class RecordingOffload:
    """Notes at which state of the device it was told that frames will pass, and how they are sent then."""

    def __init__(self) -> None:
        self.told: list[tuple[bool, bool, int]] = []

    def changed(self, _adapter: Adapter) -> None:
        """Told afterwards, which may be too late."""

    def will_pass(self, adapter: Adapter) -> None:
        self.told.append((adapter.netdev.carrier, adapter.netdev.dormant, adapter.forwarding.info.vesw_id))

    def sync_vnic(self, adapter: Adapter) -> None:
        """Nothing was counted elsewhere."""


def test_what_carries_the_frames_is_told_before_the_host_may_send() -> None:
    bench, offload = VnicBench(), RecordingOffload()
    adapter, netdev = bench.add()
    adapter.offload = offload
    adapter.apply(config(vesw_id=7, config_state=ConfigState.DROP_ALL))
    assert netdev.open() == 0
    assert offload.told == [], "the device stays dormant"
    adapter.apply(config(vesw_id=7))
    assert offload.told.pop() == (True, True, 7)
    adapter.apply(config(vesw_id=8))
    assert offload.told.pop() == (False, False, 8), "it goes down and up with another virtual switch"
    netdev.stop()
    netdev.open()
    assert offload.told.pop() == (False, False, 8)
    adapter.port_changed(False)
    adapter.port_changed(True)
    assert offload.told.pop() == (False, False, 8)
    adapter.apply(config(vesw_id=8, eth_mtu=1400))
    assert offload.told == [], "it passes already"


def test_base_mac_is_given_to_the_netdev_even_when_no_host_would_take_it() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add()
    adapter.apply(config(base_mac=b"\xff" * 6))
    assert netdev.address == b"\xff" * 6
    assert (bench.reports, gens(adapter)) == ([], (0, 0))


def test_address_of_the_host_survives_the_same_base_mac_and_yields_to_another() -> None:
    adapter, netdev = VnicBench().add(1, config())
    netdev.set_mac(OWN)
    adapter.apply(config(eth_mtu=1400))
    assert netdev.address == OWN
    adapter.apply(config(base_mac=OTHER))
    assert netdev.address == OTHER


@pytest.mark.parametrize(("eth_mtu", "max_mtu", "mtu"), [(9000, 9000, 1500), (1400, 1400, 1400), (0, 68, 68)])
def test_mtu_is_cut_to_the_limit_and_never_raised(eth_mtu: int, max_mtu: int, mtu: int) -> None:
    adapter, netdev = VnicBench().add()
    adapter.apply(config(eth_mtu=eth_mtu))
    assert (netdev.max_mtu, netdev.mtu) == (max_mtu, mtu)
    adapter.apply(config(eth_mtu=9000))
    assert (netdev.max_mtu, netdev.mtu) == (9000, mtu)


def test_reset_goes_back_to_defaults_and_keeps_the_hosts_side() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config(eth_mtu=9000))
    netdev.change_mtu(9000)
    netdev.set_uc_list([OTHER])
    adapter.update_mac_table(0, [MacEntry(OTHER, b"\xff" * 6, 0x500)], 0xD1)
    before = gens(adapter)
    bench.reports.clear()

    adapter.reset()

    info = adapter.port_info
    assert info == replace(
        VeswPortInfo.power_on(), eth_link_status=2, uc_macs_gen_count=before[0], mc_macs_gen_count=before[1]
    )
    assert adapter.mac_section(0, 1) == (None,)
    assert (netdev.mtu, netdev.address, netdev.is_up, netdev.carrier) == (1500, bytes(6), True, False)
    assert (adapter.hfi_up, netdev.dormant, bench.reports) == (False, True, [])


# up and down


@pytest.mark.parametrize("vesw_id", [0])
def test_open_without_a_virtual_switch_is_refused_and_changes_nothing(vesw_id: int) -> None:
    bench = VnicBench()
    adapter, netdev = bench.add()
    adapter.apply(config(vesw_id))
    assert netdev.open() == -errno.EINVAL
    assert (netdev.is_up, netdev.carrier, state(adapter), bench.reports) == (False, False, (1, 2), [])


@pytest.mark.parametrize(("quirks", "taken", "wanted", "error"), [
    (False, 5, 5, -errno.EBUSY), (False, 0x105, 5, 0), (True, 0x105, 5, -errno.EBUSY), (True, 5, 5, -errno.EBUSY),
])  # fmt: skip
def test_open_where_the_switch_is_taken(quirks: bool, taken: int, wanted: int, error: int) -> None:
    bench = VnicBench(driver_quirks=quirks)
    bench.add(1, config(taken))
    adapter, netdev = bench.add(2)
    adapter.apply(config(wanted))
    assert netdev.open() == error
    assert adapter.hfi_up == (error == 0)


def test_open_reports_link_then_both_lists_close_reports_link() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add()
    adapter.apply(config())
    netdev.open()
    assert bench.reports == [(1, LINK), (1, UCAST), (1, MCAST)]
    assert gens(adapter) == (1, 1)
    bench.reports.clear()
    netdev.stop()
    netdev.open()
    assert bench.reports == [(1, LINK), (1, LINK)]
    assert gens(adapter) == (2, 2)


def test_change_of_switch_moves_an_open_vnic() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    adapter.apply(config(6))
    assert (adapter.hfi_up, netdev.carrier) == (True, True)
    other, other_netdev = bench.add(2)
    other.apply(config(5))
    assert other_netdev.open() == 0


@pytest.mark.parametrize("bad", [0, 7])
def test_vnic_on_a_bad_switch_comes_back_with_a_valid_one(bad: int) -> None:
    bench = VnicBench()
    bench.add(2, config(7))
    adapter, netdev = bench.add(1, config())
    adapter.apply(config(bad))
    assert (adapter.hfi_up, netdev.carrier, state(adapter)) == (False, False, (3, 1))
    adapter.apply(config(5))
    assert (adapter.hfi_up, netdev.carrier) == (True, True)


@pytest.mark.parametrize("bad", [0, 0x107])
def test_quirk_vnic_on_a_bad_switch_stays_down_until_opened_again(bad: int) -> None:
    bench = VnicBench(driver_quirks=True)
    bench.add(2, config(7))
    adapter, netdev = bench.add(1, config())
    adapter.apply(config(bad))
    adapter.apply(config(5))
    assert (adapter.hfi_up, netdev.carrier, state(adapter)) == (False, False, (3, 1))
    netdev.stop()
    assert netdev.open() == 0
    assert adapter.hfi_up


# addresses


def test_new_address_counts_and_is_reported_also_while_closed() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add()
    assert netdev.set_mac(OWN) == 0
    assert (gens(adapter), bench.reports, netdev.address) == ((1, 0), [(1, UCAST)], OWN)


def test_same_address_is_no_change() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    before = gens(adapter)
    assert netdev.set_mac(netdev.address) == 0
    assert (gens(adapter), bench.reports) == (before, [])


@pytest.mark.parametrize("mac", [bytes(6), b"\xff" * 6, bytes.fromhex("010203040506")])
def test_address_that_is_no_stations_is_refused(mac: bytes) -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    before = netdev.address, gens(adapter)
    assert netdev.set_mac(MacAddr(mac)) == -errno.EADDRNOTAVAIL
    assert ((netdev.address, gens(adapter)), bench.reports) == (before, [])


def test_unicast_list_begins_with_the_address_unless_it_is_the_base_mac() -> None:
    adapter, netdev = VnicBench().add(1, config())
    base = netdev.address
    netdev.set_uc_list([OTHER, base])
    assert list(adapter.ucast_macs()[0]) == [OTHER, base]
    netdev.set_mac(OWN)
    assert list(adapter.ucast_macs()[0]) == [OWN, OTHER, base]


def test_fresh_vnic_has_no_address_to_list() -> None:
    adapter, _ = VnicBench().add()
    assert list(adapter.ucast_macs()[0]) == []


def test_list_changes_are_reported_once_and_their_order_counts() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    netdev.set_mc_list([OWN, OTHER])
    netdev.set_mc_list([OWN, OTHER])
    netdev.set_mc_list([OTHER, OWN])
    assert bench.reports == [(1, MCAST), (1, MCAST)]
    assert gens(adapter) == (4, 4)


def test_list_changed_while_down_is_told_at_the_next_open() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    netdev.stop()
    before = gens(adapter)
    bench.reports.clear()
    netdev.set_uc_list([OWN])
    assert (gens(adapter), bench.reports) == (before, [])
    netdev.open()
    assert bench.reports == [(1, LINK), (1, UCAST)]


def test_generation_counts_wrap_at_16_bits() -> None:
    adapter, netdev = VnicBench().add(1, config())
    for _ in range(0xFFFF):
        netdev.set_uc_list([])
    assert gens(adapter) == (0, 0)


def test_hash_of_an_empty_list_is_all_ones() -> None:
    assert list_hash([]) == 0xFFFFFFFF


def test_close_takes_the_netdev_away_and_frees_the_switch() -> None:
    bench = VnicBench()
    adapter, netdev = bench.add(1, config())
    adapter.close()
    adapter.close()
    assert netdev.closed
    assert bench.demux.attach(5, adapter) == 0
    assert adapter.port_info.config_state == ConfigState.FORWARDING
