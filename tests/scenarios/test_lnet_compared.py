"""Channel bonding beside Multi-Rail: what the comparison of `opavnic bench lnet` says, and what a message costs."""

from __future__ import annotations

import pytest

from hfi_sim.base.clock import ManualClock
from lnet.host.rig import LnetRig
from lnet.o2iblnd.conns import ConnTable
from opavnic_bench.lnet.bonding import run_fault, run_shape


def test_slow_link_holds_up_round_robin_most_and_weights_least() -> None:
    shape = "one link of three with 1G"
    plain, weighted, rail = (
        run_shape(shape, way, 0.004).gbps for way in ("o2ibs", "o2ibs weighted", "multi-rail")
    )
    assert plain < rail < weighted


def test_far_hfi_that_goes_deaf_delays_bonding_and_fails_messages_of_multi_rail() -> None:
    fault, load = "far HFI deaf for good", "32 every 100 ms"
    bonded, rail = (run_fault(fault, load, way, 1.5) for way in ("o2ibs", "multi-rail"))
    assert bonded.failed == 0
    assert rail.failed > 0
    assert rail.late < bonded.late


@pytest.mark.parametrize("peers", [4, 40])
def test_message_looks_at_no_connection_but_its_own(peers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    rig = LnetRig(clock)
    a = rig.add_host("a", ["10.1.0.2"])
    nids = [rig.add_host(f"p{index}", [f"10.1.1.{2 + index}"]).nid for index in range(peers)]
    for nid in nids:
        a.node.put(nid, b"first")
    clock.advance(1)
    looked = 0
    real = ConnTable._due_of

    def due_of(self: ConnTable, key: int) -> float | None:
        nonlocal looked
        looked += 1
        return real(self, key)

    conns = a.node.lnd.conns
    monkeypatch.setattr(conns._deadlines, "_of", lambda key: due_of(conns, key))
    for number in range(200):
        a.node.put(nids[number % peers], b"next")
        clock.advance(1e-3)
    assert len(a.done) == peers + 200
    assert looked < 200 * 16
