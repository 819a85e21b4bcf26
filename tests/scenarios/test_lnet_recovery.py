"""Routes that go and come back under traffic, seen as a user sees them: reports, net_status, nothing lost."""

from __future__ import annotations

from typing import Any

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.types import PortEvent
from hfi_sim.nodes.hfi import HfiPort
from lnet.base.nid import Net, Nid
from lnet.host.rig import LnetRig, RigHost
from lnet.lnetctl import Lnetctl
from lnet.objects.stats import NetRemoved, SendDone, SendFailed
from lnet.settings.config import LndConfig
from opavnic_bench.lnet.bench import bench_lnet
from scenarios.lnet_faults import TARGETS, A, B

A_NID, B_NID = Nid.parse("10.1.1.2@o2ib"), Nid.parse("10.1.1.5@o2ib")
CHUNK = 1 << 18


def make(
    config: LndConfig | None = None, rate_bps: float = 10e9, **options: Any
) -> tuple[ManualClock, LnetRig]:
    clock = ManualClock()
    rig = LnetRig(clock, rate_bps=rate_bps, config=config or LndConfig(expected_gbps=10.0))
    rig.add_host("a", A, targets=TARGETS, **options)
    rig.add_host("b", B, targets=TARGETS)
    return clock, rig


def set_up(rig: LnetRig, port: HfiPort, up: bool) -> None:
    rig.world.fabric.set_link(port.link, up)


def status(host: RigHost) -> tuple[dict[str, str], dict[str, str]]:
    """Return what net_status says: the state of each device, and of each route."""
    (net,) = Lnetctl(host.node).net_status("o2ib")["net_status"]
    devices = {dev["interface"]: dev["state"] for dev in net["devices"]}
    return devices, {f"{r['local ip']}->{r['remote ip']}": r["state"] for r in net["routes"]}


class Transfer:
    """A long transfer from a to b in chunks, eight on the way for each device."""

    def __init__(self, clock: ManualClock, rig: LnetRig, chunks: int) -> None:
        self.clock, self.rig, self.chunks = clock, rig, chunks
        self.a, self.b = rig.hosts["a"], rig.hosts["b"]
        self.started = 0
        for _ in range(24):
            self._next()

    def _next(self) -> None:
        if self.started < self.chunks:
            self.a.node.put(B_NID, self.started.to_bytes(4, "big") + bytes(CHUNK - 4))
            self.started += 1

    def run(self, seconds: float) -> None:
        end = self.clock.time() + seconds
        while self.clock.time() < end:
            seen = len(self.a.reports)
            self.clock.advance(1e-4)
            for report in self.a.reports[seen:]:
                if isinstance(report, SendDone | SendFailed):
                    self._next()

    def routes_since(self, index: int) -> set[str]:
        return {str(done.route) for done in self.a.done[index:]}


def test_transfer_survives_the_loss_of_one_of_three_hfis_and_the_route_comes_back() -> None:
    clock, rig = make(LndConfig(expected_gbps=2.5), rate_bps=2.5e9)
    transfer = Transfer(clock, rig, chunks=300)
    a, b = transfer.a, transfer.b
    transfer.run(0.01)
    assert transfer.routes_since(0) == {"10.1.1.2->10.1.1.5", "10.1.1.3->10.1.1.6", "10.1.1.4->10.1.1.7"}

    set_up(rig, a.ports["ib1"], False)
    devices, routes = status(a)
    assert devices == {"ib0": "PORT_ACTIVE", "ib1": "PORT_DOWN", "ib2": "PORT_ACTIVE"}
    assert routes["10.1.1.3->10.1.1.6"] == "disconnected"
    before = len(a.done)
    transfer.run(0.02)
    assert transfer.routes_since(before) == {"10.1.1.2->10.1.1.5", "10.1.1.4->10.1.1.7"}

    set_up(rig, a.ports["ib1"], True)
    transfer.run(0.01)
    devices, routes = status(a)
    assert set(devices.values()) == {"PORT_ACTIVE"}
    assert set(routes.values()) == {"up"}
    before = len(a.done)
    transfer.run(0.1)
    assert "10.1.1.3->10.1.1.6" in transfer.routes_since(before)

    transfer.run(0.5)
    assert a.failed == []
    assert len(a.done) == 300
    assert sorted(int.from_bytes(r.data[:4], "big") for r in b.received) == list(range(300))


def test_device_fatal_on_the_far_side_is_survived_and_recovered() -> None:
    clock, rig = make()
    transfer = Transfer(clock, rig, chunks=200)
    transfer.run(0.005)
    far = transfer.b.ports["ib2"]
    far.report(PortEvent.DEVICE_FATAL)
    set_up(rig, far, False)
    assert status(transfer.b)[0]["ib2"] == "FATAL"
    transfer.run(1.5)
    assert len(transfer.a.done) == 200
    assert status(transfer.a)[1]["10.1.1.4->10.1.1.7"] in ("disconnected", "probing")
    set_up(rig, far, True)
    clock.advance(15)
    assert status(transfer.a)[1]["10.1.1.4->10.1.1.7"] == "up"
    assert status(transfer.b)[0]["ib2"] == "PORT_ACTIVE"
    assert transfer.a.failed == []
    assert len(transfer.b.received) == 200


def test_degraded_device_is_used_and_shown() -> None:
    clock = ManualClock()
    rig = LnetRig(clock)
    a = rig.add_host("a", A, targets=TARGETS, rates_bps={"ib1": 25e9})
    rig.add_host("b", B, targets=TARGETS)
    for _ in range(6):
        a.node.put(B_NID, b"x")
    clock.advance(0.1)
    assert status(a)[0] == {"ib0": "PORT_ACTIVE", "ib1": "PORT_DEGRADE", "ib2": "PORT_ACTIVE"}
    assert [done.route.rt_dev.name for done in a.done].count("ib1") == 2


def test_net_status_counts_messages_bytes_retries_and_time_down() -> None:
    clock, rig = make()
    a = rig.hosts["a"]
    for _ in range(3):
        a.node.put(B_NID, bytes(100))
    clock.advance(0.1)
    set_up(rig, a.ports["ib0"], False)
    clock.advance(2)
    (net,) = Lnetctl(a.node).net_status("o2ib")["net_status"]
    statistics = {route["dev"]: route["statistics"] for route in net["routes"]}
    assert statistics["ib0"] == {"messages": 1, "bytes": 100, "retries": 0, "connects": 1, "down_s": 2.0}
    assert statistics["ib1"] == {"messages": 1, "bytes": 100, "retries": 0, "connects": 1, "down_s": 0.0}
    set_up(rig, a.ports["ib0"], True)
    clock.advance(15)
    for _ in range(3):
        a.node.put(B_NID, bytes(100))
    for port in a.ports.values():  # the messages of each route go on to the next one
        set_up(rig, port, False)
    clock.advance(0.01)
    (net,) = Lnetctl(a.node).net_status("o2ib")["net_status"]
    assert [route["statistics"]["retries"] for route in net["routes"]] == [1, 2, 3]


def test_removing_one_device_under_traffic_moves_its_messages() -> None:
    clock, rig = make()
    transfer = Transfer(clock, rig, chunks=200)
    transfer.run(0.005)
    Lnetctl(transfer.a.node).net_del("o2ib", "ib1")
    transfer.run(0.5)
    assert transfer.a.failed == []
    assert len(transfer.b.received) == 200
    assert "ib1" not in status(transfer.a)[0]


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_removing_the_last_device_under_traffic_settles_every_message_once(loss: float) -> None:
    clock, rig = make()
    a, b = rig.hosts["a"], rig.hosts["b"]
    faults = rig.world.faults
    for host in (a, b):
        for port in host.ports.values():
            faults.add(f"loss on {port.name} {loss} direction=rx")
    ids = [a.node.put(B_NID, n.to_bytes(4, "big") + bytes(n % 3 * 4000)) for n in range(300)]
    clock.advance(0.0005)
    ctl = Lnetctl(a.node)
    for name in ("ib0", "ib1", "ib2"):
        ctl.net_del("o2ib", name)
    after = a.node.put(B_NID, b"too late")
    clock.advance(30)
    assert [r for r in a.reports if isinstance(r, NetRemoved)] == [NetRemoved(A_NID)]
    outcome = {done.msg_id for done in a.done}
    failed = {f.msg_id for f in a.failed}
    assert len(a.done) + len(a.failed) == 301
    assert outcome | failed == {*ids, after}
    assert not any(f.in_doubt for f in a.failed)
    delivered = sorted(int.from_bytes(r.data[:4], "big") for r in b.received)
    assert delivered == sorted(ids.index(msg_id) for msg_id in outcome)
    assert [net["net type"] for net in ctl.net_show()["net"]] == ["lo"]


def test_network_removed_and_added_again_goes_on_where_it_was() -> None:
    clock, rig = make()
    a, b = rig.hosts["a"], rig.hosts["b"]
    ctl = Lnetctl(a.node)
    a.node.put(B_NID, b"before")
    clock.advance(0.1)
    ctl.net_del("o2ib")
    ctl.net_add("o2ib", ["ib0", "ib1", "ib2"])
    a.node.put(B_NID, b"after")
    clock.advance(0.1)
    assert [received.data for received in b.received] == [b"before", b"after"]


def test_peer_that_restarts_is_met_again() -> None:
    clock, rig = make(LndConfig(keepalive_s=5))
    a = rig.hosts["a"]
    for _ in range(3):
        a.node.put(B_NID, b"to the first life")
    clock.advance(0.1)
    b = rig.restart("b", stamp=2, targets=TARGETS)
    clock.advance(10)
    a.node.put(B_NID, b"to the second life")
    clock.advance(1)
    assert [received.data for received in b.received] == [b"to the second life"]
    assert a.failed == []


def test_peers_that_announce_their_addresses_need_no_targets() -> None:
    clock = ManualClock()
    rig = LnetRig(clock, config=LndConfig(announce=True))
    a, _ = rig.add_host("a", A), rig.add_host("b", B)
    a.node.put(B_NID, b"hello")
    clock.advance(0.1)
    for _ in range(3):
        a.node.put(B_NID, b"again")
    clock.advance(0.1)
    assert {str(done.route) for done in a.done[1:]} == {
        "10.1.1.2->10.1.1.5",
        "10.1.1.3->10.1.1.6",
        "10.1.1.4->10.1.1.7",
    }
    assert "o2ibs" not in Lnetctl(a.node).export_yaml()


def test_two_groups_on_one_node_keep_to_their_own_devices() -> None:
    clock = ManualClock()
    rig = LnetRig(clock)
    four = [f"10.1.1.{n}" for n in range(2, 6)], [f"10.1.2.{n}" for n in range(2, 6)]
    networks = "o2ib0(ib0,ib2),o2ib1(ib1,ib3)"
    a = rig.add_host("a", four[0], networks=networks)
    rig.add_host("b", four[1], networks=networks)
    for nid in ("10.1.2.2@o2ib", "10.1.2.3@o2ib1"):
        for _ in range(2):
            a.node.put(Nid.parse(nid), b"x")
    clock.advance(0.1)
    used = {(done.nid.net, done.route.rt_dev.name) for done in a.done}
    first, second = Net.parse("o2ib"), Net.parse("o2ib1")
    assert used == {(first, "ib0"), (first, "ib2"), (second, "ib1"), (second, "ib3")}


def test_throughput_grows_with_the_number_of_hfis() -> None:
    runs = bench_lnet(virtual_seconds=0.002, compare=False)["runs"]
    assert [run["hfis"] for run in runs] == [1, 2, 3, 4]
    for run in runs:
        assert run["virtual_gbps"] >= 0.9 * run["hfis"] * runs[0]["virtual_gbps"]
    assert runs[0]["virtual_gbps"] >= 9.0, "of 10 Gb/s"
