"""The native datapath is held to the reference: same configuration and frames, same deliveries and counters."""

from __future__ import annotations

import random
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.packet import check_packet
from native_module import needs_native
from opavnic.datapath.selection import load_native
from opavnic.datapath.snapshot import add_vnic
from opavnic.vnic.flow import flow_hash
from unit.opavnic.datapath.twins import NativeTwin, Twin, make_twin, some_frame

native = load_native()
pytestmark = needs_native

FRAMES = 80


def counters(twin: Twin) -> dict[str, object]:
    everything: dict[str, object] = {name: asdict(values) for name, values in twin.fabric.counters()}
    for index, adapter in enumerate(twin.adapters):
        everything[f"vnic {index}"] = adapter.counters.ethtool_stats() | {
            "tx_smac_filt": adapter.counters.tx_smac_filt,
            "rx_nohandler": adapter.counters.rx_nohandler,
        }
    return everything


@pytest.mark.parametrize("seed", range(40))
def test_both_datapaths_with_random_configuration_do_the_same(seed: int) -> None:
    reference = make_twin(random.Random(seed))
    other = NativeTwin(random.Random(seed), workers=1 + seed % 3)
    assert counters(reference) == counters(other.twin)
    rng = random.Random(seed)
    lids = [port.lid for port in reference.fabric.hfi_ports()]
    for _ in range(FRAMES):
        sender = rng.randrange(len(reference.adapters))
        frame = some_frame(rng, lids)
        # the host sends whatever the state is: a netdev that is down would not even hand the frame over
        reference.adapters[sender].ndo_start_xmit(frame)
        other.send(sender, frame)
        received = {
            index: frames for index in range(len(reference.adapters)) if (frames := reference.received(index))
        }
        assert received == other.received(), frame.hex()
    other.add_up()
    assert counters(reference) == counters(other.twin)
    assert reference.fabric.balance() == {}
    assert other.twin.fabric.balance() == {}


def test_counters_of_one_vnic_are_taken_once_and_without_those_of_others() -> None:
    """An EM reads every VNIC by itself; what is read then is in no later reading, nor lost when the VNIC goes."""
    at_once, one_by_one = (NativeTwin(random.Random(5)) for _ in range(2))
    rng = random.Random(5)
    lids = [port.lid for port in at_once.twin.fabric.hfi_ports()]
    vnics = list(enumerate(one_by_one.twin.adapters))
    for number in range(FRAMES):
        sender, frame = rng.randrange(len(vnics)), some_frame(rng, lids)
        for other in (at_once, one_by_one):
            other.send(sender, frame)
        index, adapter = vnics[number % len(vnics)]
        add_vnic(adapter, one_by_one.carrier.collect_vport(0, index))
    for index, adapter in vnics:
        add_vnic(adapter, one_by_one.carrier.remove_vport(0, index))
        with pytest.raises(ValueError, match=f"no vport with index {index}"):
            one_by_one.carrier.collect_vport(0, index)
    at_once.add_up()
    assert counters(at_once.twin) == counters(one_by_one.twin)
    assert sum(adapter.tx.in_packets for _, adapter in vnics) == FRAMES


def test_host_that_refuses_frames_is_counted_the_same() -> None:
    """A netdev in memory can refuse; so does a descriptor that takes no frames."""
    other = NativeTwin(random.Random(3))
    other.send(0, b"short")
    other.add_up()
    assert other.twin.adapters[0].tx.drops == {"vnic_tx_malformed": 1}


@given(st.binary(min_size=14, max_size=2000))
def test_flow_hash_of_any_frame_equals_the_reference(frame: bytes) -> None:
    assert native is not None
    padded = frame.ljust(60, b"\0")
    assert native.flow_hash(padded) == flow_hash(padded)


@given(st.randoms(use_true_random=False))
def test_flow_hash_of_likely_frames_equals_the_reference(rng: random.Random) -> None:
    assert native is not None
    frame = some_frame(rng, [1, 2]).ljust(60, b"\0")
    assert native.flow_hash(frame) == flow_hash(frame)


@given(st.binary(max_size=400))
def test_check_of_any_bytes_equals_the_reference(data: bytes) -> None:
    assert native is not None
    expected = check_packet(data, Icrc())
    assert native.check(data) == (None if expected is None else expected.value)


@given(st.binary(min_size=21, max_size=3000))
def test_icrc_of_any_bytes_equals_the_reference(data: bytes) -> None:
    assert native is not None
    assert native.icrc(data) == Icrc().compute(data[:-5], data[-1] & 7)
