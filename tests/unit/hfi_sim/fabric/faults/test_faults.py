"""Each kind of fault, its place, its time, its packets; and that it leaves everything else alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FaultError
from hfi_sim.base.types import PortEvent, PortState
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults, FaultState
from hfi_sim.fabric.topology import clos
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.wire.lrh16b import L4, Lrh16B
from hfi_sim.wire.packet import build_packet


class Bed:
    """h1, h2 on leaf0, h3, h4 on leaf1, two spines; virtual time by hand."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = ManualClock()
        self.fabric = clos(2, 2, hosts_per_leaf=2).build(Fabric(self.clock, seed=seed))
        self.ports = {port.hfi.name: port for port in self.fabric.hfi_ports()}
        self.sm = SubnetManager(self.fabric, self.ports["h1"])
        self.sm.sweep()
        self.faults = Faults(self.fabric)
        self.got: list[tuple[float, str, int]] = []
        for port in self.ports.values():
            self.sm.set_pkeys(port, [0x8002])
            for l4 in (0x55, L4.ETHERNET):
                port.register_l4(l4, self._take)

    def _take(self, port: HfiPort, packet: bytes, _token: object) -> None:
        self.got.append((self.clock.time(), port.hfi.name, packet[20]))

    def send(self, numbers: range, source: str = "h1", target: str = "h3", **fields: int) -> None:
        vesw_id = fields.pop("vesw_id", 0)
        for number in numbers:
            values = {"l4": 0x55, "pkey": 0x8002, "dlid": self.ports[target].lid, **fields}
            lrh = Lrh16B(slid=self.ports[source].lid, **values)  # type: ignore[arg-type]
            payload = bytes(2) + vesw_id.to_bytes(2, "little") + bytes([number])
            self.ports[source].send(build_packet(lrh, payload + bytes(60), self.fabric.icrc))

    def numbers(self, host: str = "h3") -> list[int]:
        return [number for _, name, number in self.got if name == host]

    def settle(self) -> None:
        self.clock.advance(1)
        assert self.fabric.balance() == {}


@pytest.fixture
def bed() -> Bed:
    return Bed()


def test_loss_takes_a_share_of_the_packets_and_counts_them(bed: Bed) -> None:
    fault = bed.faults.add("loss on h1 30%")
    bed.send(range(200))
    bed.settle()
    lost = bed.fabric.drops()["h1:1->leaf0:1"][Drop.LINK_FAULT]
    assert 40 < lost < 80
    assert len(bed.got) == 200 - lost
    assert (fault.seen, fault.hits) == (200, lost)


def test_same_seed_loses_the_same_packets() -> None:
    def run(seed: int) -> list[int]:
        bed = Bed(seed)
        bed.faults.add("loss on * 20%")
        bed.send(range(100))
        bed.settle()
        return bed.numbers()

    assert run(5) == run(5) != run(6)


def test_count_and_skip_choose_exact_packets(bed: Bed) -> None:
    fault = bed.faults.add("loss on h1 count=3 skip=2")
    bed.send(range(10))
    bed.settle()
    assert bed.numbers() == [0, 1, 5, 6, 7, 8, 9]
    assert fault.state is FaultState.OVER
    assert not any(way.rules for link in bed.fabric.links for way in link.directions)


def test_duplicate_delivers_copies(bed: Bed) -> None:
    bed.faults.add("duplicate on h3 copies=2 count=1")
    bed.send(range(3))
    bed.settle()
    assert bed.numbers() == [0, 0, 0, 1, 2]


def test_reorder_lets_later_packets_overtake(bed: Bed) -> None:
    bed.faults.add("reorder on h1 behind=2 count=1")
    bed.send(range(5))
    bed.settle()
    assert bed.numbers() == [1, 2, 0, 3, 4]


def test_reorder_of_the_last_packet_lets_it_go_in_time(bed: Bed) -> None:
    bed.faults.add("reorder on h1 behind=2 skip=4 hold=5ms")
    bed.send(range(5))
    bed.clock.advance(0.004)
    assert bed.numbers() == [0, 1, 2, 3]
    bed.settle()
    assert bed.numbers() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("bits", [1, 5])
def test_corrupt_is_caught_by_the_icrc(bed: Bed, bits: int) -> None:
    bed.faults.add(f"corrupt on leaf1--h3 50% bits={bits}")
    bed.send(range(100))
    bed.settle()
    damaged = bed.ports["h3"].rx.drops[Drop.RX_ICRC]
    assert 30 < damaged < 70
    assert len(bed.got) == 100 - damaged


def test_delay_adds_time_and_keeps_order(bed: Bed) -> None:
    bed.faults.add("delay on h1 delay=10ms count=1")
    bed.send(range(3))
    bed.settle()
    assert bed.numbers() == [0, 1, 2]
    assert all(when >= 0.01 for when, _, _ in bed.got)


def test_smallest_rate_holds_until_it_is_removed_whichever_began_last(bed: Bed) -> None:
    link = bed.ports["h1"].link
    assert link is not None
    texts = {1e6: "rate on h1 rate=1M", 10e3: "rate on h1--leaf0 rate=10k", 1e12: "rate on h1 rate=1T"}
    for order in permutations(texts):
        added = {rate: bed.faults.add(texts[rate]) for rate in order}
        for lifted, left in ((10e3, 1e6), (1e6, 100e9), (1e12, 100e9)):
            assert link.rate_bps == min(lifted, 100e9)
            bed.faults.remove(added[lifted].number)
            assert link.rate_bps == left


@pytest.mark.parametrize(
    ("on", "there", "back"),
    [
        ("h1->leaf0 rate=1M", 1e6, 100e9),
        ("leaf0:1->h1:1 rate=1M", 100e9, 1e6),
        ("h1 rate=1M direction=tx", 1e6, 100e9),
        ("h1 rate=1M direction=rx", 100e9, 1e6),
        ("h1--leaf0 rate=1M direction=rx", 100e9, 1e6),
        ("* rate=1M direction=tx", 1e6, 100e9),
        ("h1 rate=1M", 1e6, 1e6),
    ],
)
def test_rate_of_one_direction_leaves_the_other_and_what_was_planned(
    bed: Bed, on: str, there: float, back: float
) -> None:
    port = bed.ports["h1"]
    assert port.link is not None
    fault = bed.faults.add(f"rate on {on}")
    assert (port.link.direction_from(port).rate_bps, port.link.direction_to(port).rate_bps) == (there, back)
    assert port.link.rate_bps == 1e6
    assert port.link.planned_bps == 100e9
    bed.send(range(20))
    bed.send(range(20), source="h3", target="h1")
    bed.clock.advance(0.001)
    if not on.startswith("*"):  # which slows other links on both ways down, too
        assert len(bed.numbers("h3")) == (20 if there == 100e9 else 1)
        assert len(bed.numbers("h1")) == (20 if back == 100e9 else 1)
    bed.settle()
    bed.faults.remove(fault.number)
    assert port.link.rate_bps == 100e9


def test_one_direction_that_is_down_loses_its_packets_and_no_port_notices(bed: Bed) -> None:
    fault = bed.faults.add("link-down on h1->leaf0")
    link = bed.ports["h1"].link
    assert link is not None
    assert link.up
    assert [way.up for way in link.directions] == [way.source.name != "h1:1" for way in link.directions]
    bed.send(range(5))
    bed.send(range(5), source="h3", target="h1")
    bed.settle()
    assert bed.ports["h1"].state is PortState.ACTIVE
    assert bed.numbers("h1") == list(range(5))
    assert bed.numbers("h3") == []
    assert bed.fabric.drops() == {"h1:1->leaf0:1": {Drop.LINK_DOWN: 5}}
    bed.faults.add("link-down on h1")
    bed.faults.remove(fault.number)
    bed.faults.clear()
    bed.sm.sweep()
    bed.send(range(5, 7))
    bed.settle()
    assert bed.numbers("h3") == [5, 6]
    assert all(way.up for way in link.directions)


def test_port_error_of_one_direction_loses_what_is_on_its_way_there(bed: Bed) -> None:
    bed.faults.add("rate on h1 rate=1M")
    bed.send(range(4))
    bed.send(range(4), source="h3", target="h1")
    bed.clock.advance(0.0015)
    bed.faults.add("port-error on h1->leaf0")
    bed.clock.advance(0.0001)
    bed.send(range(4, 6))
    bed.settle()
    assert bed.numbers("h3")[-2:] == [4, 5]
    lost = bed.fabric.drops()["h1:1->leaf0:1"][Drop.LINK_DOWN]
    assert bed.numbers("h3") == [*range(4 - lost), 4, 5]
    assert bed.numbers("h1") == list(range(4))
    assert bed.ports["h1"].state is PortState.ACTIVE


@pytest.mark.parametrize("text", ["rate on * rate=1M", "link-down on leaf0->spine0", "partition on leaf0"])
def test_link_that_is_laid_later_has_the_faults_of_its_place(bed: Bed, text: str) -> None:
    fault = bed.faults.add(text)
    near, far = bed.fabric.switches["leaf0"], bed.fabric.switches["spine0"]
    near.grow(len(near.ports) + 1)
    far.grow(len(far.ports) + 1)
    link = bed.fabric.connect(near.ports[len(near.ports)], far.ports[len(far.ports)])
    bed.faults.extend()
    found = (link.up, [way.up for way in link.directions], link.rate_bps)
    assert (
        found
        == {
            "rate": (True, [True, True], 1e6),
            "link-down": (True, [False, True], 100e9),
            "partition": (False, [False, False], 100e9),
        }[fault.spec.kind.value]
    )
    bed.faults.remove(fault.number)
    assert (link.up, [way.up for way in link.directions], link.rate_bps) == (True, [True, True], 100e9)


def test_link_down_for_a_time_comes_back_and_routes_around(bed: Bed) -> None:
    fault = bed.faults.add("link-down on leaf0--spine0 after=1ms for=2ms")
    bed.clock.advance(0.0009)
    assert fault.state is FaultState.WAITING
    bed.clock.advance(0.0011)
    bed.send(range(10), entropy=0)
    bed.clock.advance(0.0005)
    assert bed.numbers() == list(range(10))
    assert bed.fabric.switches["spine0"].counters.in_packets == 0
    bed.settle()
    assert all(link.up for link in bed.fabric.links)


def test_flap_repeats_and_ends_by_count(bed: Bed) -> None:
    events: list[PortEvent] = []
    bed.ports["h3"].subscribe(events.append)
    fault = bed.faults.add("link-down on h3 for=1ms every=10ms count=3")
    bed.clock.advance(1)
    assert events == [PortEvent.PORT_ERR, PortEvent.PORT_ACTIVE] * 3
    assert (fault.hits, fault.state) == (3, FaultState.OVER)


def test_port_error_takes_the_port_down_and_up(bed: Bed) -> None:
    events: list[PortEvent] = []
    bed.ports["h2"].subscribe(events.append)
    bed.faults.add("port-error on h2:1")
    bed.clock.advance(0.001)
    assert events == [PortEvent.PORT_ERR, PortEvent.PORT_ACTIVE]


def test_switch_reboot_loses_what_is_sent_and_comes_back(bed: Bed) -> None:
    bed.faults.add("switch-reboot on leaf1 for=100ms")
    bed.send(range(3))
    bed.clock.advance(0.05)
    assert [port.name for port in bed.sm.ports_in_service()] == ["h1:1", "h2:1"]
    bed.clock.advance(0.1)
    bed.send(range(3, 6))
    bed.settle()
    assert bed.numbers() == [3, 4, 5]


def test_hfi_removal_reports_a_fatal_event_and_can_be_undone(bed: Bed) -> None:
    events: list[PortEvent] = []
    bed.ports["h4"].subscribe(events.append)
    fault = bed.faults.add("hfi-removal on h4")
    assert events == [PortEvent.DEVICE_FATAL, PortEvent.PORT_ERR]
    bed.faults.remove(fault.number)
    assert bed.ports["h4"].state is PortState.ACTIVE


def test_hfi_removal_takes_the_clients_of_the_hfi_along_and_brings_them_back(bed: Bed) -> None:
    calls: list[str] = []
    for name, hfi in (("agent h1", "h1"), ("agent h4", "h4")):
        bed.faults.hook(
            name, partial(calls.append, f"{name} gone"), partial(calls.append, f"{name} back"), hfi=hfi
        )
    fault = bed.faults.add("hfi-removal on h4")
    assert calls == ["agent h4 gone"]
    bed.faults.remove(fault.number)
    assert calls == ["agent h4 gone", "agent h4 back"]


def test_register_error_is_for_an_hfi_that_has_registers_and_comes_again_as_it_is_told(bed: Bed) -> None:
    with pytest.raises(
        FaultError, match="h4 has no registers: it is not the HFI of a host with kernel: hfi1"
    ):
        bed.faults.add("register-error on h4")
    assert bed.faults.show() == []
    broken: list[float] = []
    bed.ports["h4"].break_register = lambda: broken.append(bed.clock.time())
    bed.faults.add("register-error on h4")
    bed.faults.add("register-error on h4 for=1ms every=1s count=3")
    bed.clock.advance(10)
    assert broken == [0, 0, 1, 2]


def test_partition_cuts_a_side_off_with_its_hosts(bed: Bed) -> None:
    fault = bed.faults.add("partition on leaf1")
    bed.send(range(3))
    bed.send(range(3), target="h2")
    bed.settle()
    assert (bed.numbers("h3"), bed.numbers("h2")) == ([], [0, 1, 2])
    bed.faults.remove(fault.number)
    bed.send(range(3))
    bed.settle()
    assert bed.numbers("h3") == [0, 1, 2]


def test_crash_calls_its_hook_and_restarts(bed: Bed) -> None:
    calls: list[str] = []
    bed.faults.hook("agent h1", lambda: calls.append("crash"), lambda: calls.append("restart"))
    with pytest.raises(FaultError, match='unknown agent or manager that can crash "h1"'):
        bed.faults.add("crash on h1")
    from hfi_sim.fabric.faults import FaultKind, FaultSpec

    bed.faults.add(FaultSpec(FaultKind.CRASH, "agent h1", for_s=0.5))
    assert calls == ["crash"]
    bed.clock.advance(1)
    assert calls == ["crash", "restart"]


def test_crashes_that_overlap_end_together(bed: Bed) -> None:
    calls: list[str] = []
    bed.faults.hook("h1", lambda: calls.append("crash"), lambda: calls.append("restart"))
    first = bed.faults.add("crash on h1 for=2s")
    second = bed.faults.add("crash on h1 after=1s for=5s")
    bed.clock.advance(3)
    assert calls == ["crash"]  # the second holds it down still
    assert (first.state, second.state) == ("over", "active")
    bed.faults.remove(second.number)
    assert calls == ["crash", "restart"]
    bed.faults.unhook("h1")
    with pytest.raises(FaultError, match=r'unknown agent or manager that can crash "h1" \(none exist\)'):
        bed.faults.add("crash on h1")


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("l4=0x55", {"a", "b"}),
        ("l4=ethernet", {"c"}),
        ("vesw=7", {"c"}),
        ("vesw=8", set()),
        ("sc=3", {"b"}),
        ("dlid=3", {"a", "b", "c"}),
        ("slid=3", set()),
        ("lid=1 sc=0", {"a", "c"}),
        ("direction=tx", {"a", "b", "c"}),
        ("direction=rx", set()),
    ],
)
def test_match_means_these_packets_only(bed: Bed, text: str, hit: set[str]) -> None:
    bed.faults.add(f"loss on h1 {text}")
    bed.send(range(1, 2))
    bed.send(range(2, 3), sc=3)
    bed.send(range(3, 4), l4=int(L4.ETHERNET), vesw_id=7)
    bed.settle()
    assert {1: "a", 2: "b", 3: "c"}.keys() - set(bed.numbers()) == {" abc".index(letter) for letter in hit}


def test_match_by_mad_attribute_and_method_spares_other_mads(bed: Bed) -> None:
    from hfi_sim.wire.mad.header import MadHeader

    seen: list[int] = []
    bed.ports["h3"].mad.register_agent(3, None, (1, 2), lambda request: seen.append(request.header.attr_id))
    fault = bed.faults.add("loss on h3 attr=0x11 method=1")
    for attr_id, method in ((0x11, 1), (0x12, 1), (0x11, 2)):
        mad = MadHeader(mgmt_class=3, method=method, tid=1, attr_id=attr_id).build()
        bed.ports["h1"].mad.send(bed.ports["h3"].lid, mad)
    bed.settle()
    assert seen == [0x12, 0x11]
    assert fault.hits == 1


def test_setting_one_fault_leaves_others_alone_and_show_lists_each(bed: Bed) -> None:
    bed.faults.add("loss on h1 count=1")
    bed.faults.add("duplicate on h1 count=1 skip=1")
    bed.faults.add("link-down on h4")
    bed.send(range(3))
    bed.settle()
    assert bed.numbers() == [1, 2, 2]  # the lost packet never got as far as the second fault
    assert [(row["number"], row["kind"], row["state"], row["hits"]) for row in bed.faults.show()] == [
        (1, "loss", "over", 1),
        (2, "duplicate", "over", 1),
        (3, "link-down", "active", 1),
    ]
    assert bed.faults.clear() == 3
    assert all(link.up for link in bed.fabric.links)
    assert bed.faults.show() == []


def test_two_faults_on_one_link_keep_it_down_until_both_end(bed: Bed) -> None:
    bed.faults.add("link-down on h4 for=1ms")
    bed.faults.add("link-down on h4 for=3ms")
    link = bed.ports["h4"].link
    assert link is not None
    bed.clock.advance(0.002)
    assert not link.up
    bed.clock.advance(0.002)
    assert link.up


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("los on h1", r'unknown fault "los" \(nearest: "loss"'),
        ("loss on h9", r'unknown link, port or node "h9" \(nearest: "h'),
        ("loss on leaf0--spin0", r'unknown link "leaf0--spin0" \(nearest: "leaf0:\d--spine0:1"'),
        ("loss on h1 los=3", r'fault loss: unknown option "los"'),
        ("loss on h1 120%", "probability is 120%, not 0 to 100%"),
        ("loss on h1 20% probability=3%", "probability appears twice"),
        ("loss on h1 l4=maad", r'fault loss: l4: unknown L4 type "maad" \(nearest: "mad"; known: ethernet, eth, mad'),
        ("loss on h1 h2 h3", '"h2" is neither OPTION=VALUE nor a probability such as 20%'),
        ("loss on h1 for=2x", "fault loss: for: '2x' is not a time such as 300ns, 2ms, 10s or 5m"),
        ("loss on h1 count=0", "count is 0, not 1 to 1000000000"),
        ("loss on h1 count=" + "9" * 4000, "count: '9+\\.\\.\\.9+' is not a whole number such as 5"),
        ("loss on h1 for=" + "9" * 400 + "s", "for: '9+\\.\\.\\.9+s' is not a time"),
        ("duplicate on h1 copies=1000000", "copies is 1000000, not 1 to 1000"),
        ("link-down on h1 for=1s every=1ns", "every is 1ns, not 1us to"),
        ("loss on h1 direction=up", 'direction "up" is neither tx nor rx'),
        ("loss", 'is not KIND on PLACE'),
        ("delay on h1", "say how long"),
        ("rate on h1 rate=0", "above 0"),
        ("link-down on h1 l4=mad", "cannot choose packets"),
        ("link-down on h1 every=1s", "give for= as well"),
        ("switch-reboot on leaf9", r'unknown switch "leaf9" \(nearest: "leaf'),
        ("hfi-removal on leaf0", 'unknown HFI "leaf0"'),
        ("partition on leaf0,leaf7", 'unknown node "leaf7"'),
        ("partition on leaf0,leaf1,spine0,spine1", "no link runs between these and the rest"),
    ],
)  # fmt: skip
def test_add_nonsense_is_refused_with_the_nearest_name(bed: Bed, text: str, message: str) -> None:
    with pytest.raises(FaultError, match=message):
        bed.faults.add(text)
    assert bed.faults.show() == []


def test_remove_unknown_number_names_those_that_are_set(bed: Bed) -> None:
    bed.faults.add("loss on h1")
    with pytest.raises(FaultError, match=r"no fault has the number 7 \(set: 1\)"):
        bed.faults.remove(7)


@pytest.mark.parametrize(
    "change", [lambda bed: bed.faults.remove(1), lambda bed: bed.faults.clear()], ids=["remove", "clear"]
)
def test_remove_before_its_time_never_begins(bed: Bed, change: Callable[[Bed], None]) -> None:
    bed.faults.add("loss on h1 after=1ms")
    change(bed)
    bed.clock.advance(0.01)
    bed.send(range(2))
    bed.settle()
    assert bed.numbers() == [0, 1]
