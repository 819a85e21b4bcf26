"""Changes of a lab in memory: what comes back is the same, what fails does not stay, and sabotage is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest
from lab_law import LAB, POINTS, ChangingLab, differing, facts_of

from hfi_sim.base.kept_numbers import Remembered
from lab_in_memory import lab_in_memory
from opavnic.lab.change.edits import EditError
from opavnic.lab.change.live import LivingLab
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.reconcile import HostReconciler
from opavnic.lab.run import save as saving
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.save import save
from opavnic.lab.run.world_of import let_manage
from opavnic.lab.untrusted import rules
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.host_backends.memory_host import MemoryHost
from opavnic.world.host_driver import WorldHost

TEXT = LAB % ("changing", "python")
PLAIN = """
name: plain
hosts: 3
fabric: {topology: {kind: explicit, switches: {sw0: {}}, links: [[h1, sw0:1], {ends: [h2, sw0:2], loss: 0.1%},
  {ends: [h3, sw0:3], rate: 10G}]}}
vesws: [{id: 2, name: blue, subnet: 10.9.0.0/24, members: [h1, h2]}]
"""


def of_host(lab: Lab, host: str) -> dict[str, Any]:
    return {key: value for key, value in facts_of(lab)["vnics"].items() if key.startswith(f"{host} ")}


@pytest.mark.looptime
async def test_member_that_leaves_and_joins_again_is_what_it_was() -> None:
    async with lab_in_memory(TEXT) as lab:
        before, changing = facts_of(lab), ChangingLab(lab)
        for vesw, member in (("blue", "h2"), ("t12", "h2"), ("blue", "h3.2"), ("red", "h4")):
            await changing.leave(vesw, member)
        assert "h2 blue h2:1" not in facts_of(lab)["vnics"]
        for vesw, member in (("red", "h4"), ("blue", "h3.2"), ("t12", "h2"), ("blue", "h2")):
            await changing.join(vesw, member)
        assert facts_of(lab)["vnics"] == before["vnics"]


@pytest.mark.looptime
async def test_host_that_is_removed_and_added_again_has_its_number_guid_lid_and_macs() -> None:
    async with lab_in_memory(TEXT) as lab:
        changing, before = ChangingLab(lab), facts_of(lab)
        await changing.remove("h1")
        await changing.add("n1", ["blue"])
        await changing.add("h1", ["blue", "red", "t12"])
        after = facts_of(lab)
        assert of_host(lab, "h1") == {
            key: value for key, value in before["vnics"].items() if key.startswith("h1 ")
        }
        assert (after["guids"]["h1"], after["numbers"]["h1"]) == (
            before["guids"]["h1"],
            before["numbers"]["h1"],
        )


@pytest.mark.looptime
async def test_a_change_checks_the_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand hosts that takes a third of a second: what runs has been checked when it was made so."""
    checked = 0
    validate = LabModel.model_validate.__func__  # type: ignore[attr-defined]

    def counted(model: type[LabModel], data: Any) -> LabModel:
        nonlocal checked
        checked += 1
        return cast("LabModel", validate(model, data))

    monkeypatch.setattr(LabModel, "model_validate", classmethod(counted))
    async with lab_in_memory(PLAIN) as lab:
        changing = ChangingLab(lab)
        await changing.add("n1", ["blue"])
        checked = 0
        await changing.add("n2", ["blue"])
        await changing.leave("blue", "n1")
        await changing.remove("n2")
        assert checked == 3
        save(lab)
        assert checked == 3


@pytest.mark.looptime
async def test_what_is_said_of_a_virtual_switch_waits_until_its_host_joins() -> None:
    async with lab_in_memory(TEXT) as lab:
        changing = ChangingLab(lab)
        await changing.leave("t12", "h2")
        assert lab.reconciler.waiting("h2") == (
            "address 10.0.12.2/24 waits for t12",
            "route 10.60.0.0/16 dev t12 waits for t12",
        )
        await changing.leave("blue", "h1")
        assert lab.reconciler.waiting("h1") == (
            "route 10.50.0.0/16 via 10.9.2.2 waits for blue",
            "sysctl net.ipv4.conf.blue.log_martians waits for blue",
        )
        await changing.join("t12", "h2")
        assert lab.reconciler.waiting("h2") == ()


FAR = """
name: far
hosts: 3
fabric: {topology: {kind: explicit, switches: {sw0: {}}, links: [{ends: [h1, sw0:1], latency: 30ms},
  {ends: [h2, sw0:2], latency: 30ms}, [h3, sw0:3]]}}
vesws: [{id: 2, name: blue, subnet: 10.9.0.0/24, members: [h1, h2, h3]}]
"""


class Traffic:
    """Datagrams between all members of blue, from each to each."""

    def __init__(self, lab: Lab) -> None:
        self._hosts = [cast("MemoryHost", lab.interface(name, "blue").memory_host) for name in lab.hosts]
        self.sent = self.received = 0
        for host in self._hosts:
            host.on_udp = self._take

    def _take(self, *_: object) -> None:
        self.received += 1

    async def flow(self) -> None:
        pairs = [(host, other) for host in self._hosts for other in self._hosts if other is not host]
        macs = {other: await host.resolve(other.address) for host, other in pairs}
        while True:
            for host, other in pairs:
                mac = macs[other]
                assert mac is not None
                host.send_udp(mac, other.address, b"frame", src_port=1, dst_port=1)
                self.sent += 1
            await asyncio.sleep(500e-6)


async def _lost_while(lab: Lab, change: Coroutine[Any, Any, None]) -> int:
    """Return how many datagrams are lost while a lab changes."""
    traffic = Traffic(lab)
    flow = asyncio.ensure_future(traffic.flow())
    await asyncio.sleep(0.5)
    assert traffic.sent
    await change
    flow.cancel()
    await asyncio.sleep(1.0)
    return traffic.sent - traffic.received


@pytest.mark.looptime
async def test_no_frame_is_lost_while_a_virtual_switch_gets_another_pkey() -> None:
    async with lab_in_memory(FAR) as lab:
        assert await _lost_while(lab, ChangingLab(lab).set_key("blue", "pkey", 0x8007)) == 0
        assert {name: table[:2] for name, table in facts_of(lab)["pkeys"].items() if name != "em:1"} == {
            f"{host}:1": [7, 0x7FFF] for host in lab.hosts
        }
        assert not any(lab.status().drops.values())


def partitions_change_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "opavnic.lab.change.live_steps.let_manage",
        lambda world, model, hosts, before=None: let_manage(world, model, hosts, before=before and model),
    )


def frames_on_their_way_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opavnic.lab.change.live_steps.PACKET_LIFE_S", 0.0)


@pytest.mark.looptime
@pytest.mark.parametrize("sabotage", [partitions_change_at_once, frames_on_their_way_are_forgotten])
async def test_sabotage_loses_frames(sabotage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(monkeypatch)
    async with lab_in_memory(FAR) as lab:
        assert await _lost_while(lab, ChangingLab(lab).set_key("blue", "pkey", 0x8007)) > 0


@pytest.mark.looptime
async def test_partition_of_a_part_stays_when_members_leave() -> None:
    async with lab_in_memory(PLAIN) as lab:
        lab.world.add_pkey(lab.world.hosts["h1"].port, 0x8001)  # that of blue, too
        await ChangingLab(lab).leave("blue", "h1")
        assert 0x8001 in lab.world.hosts["h1"].port.pkeys.entries
        assert 0x8001 not in lab.world.hosts["h3"].port.pkeys.entries


@pytest.mark.looptime
async def test_host_that_is_lost_or_of_another_machine_does_not_drift() -> None:
    async with lab_in_memory(TEXT) as lab:
        lab.hosts["h2"].lost = "its kernel has ended"
        assert await lab.reconciler.drift(["h1", "h2", "elsewhere"]) == await lab.reconciler.drift(["h1"])


@pytest.mark.looptime
async def test_host_whose_set_up_fails_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    async with lab_in_memory(TEXT) as lab:
        changing, before = ChangingLab(lab), facts_of(lab)

        async def refuse(self: HostReconciler, hosts: Any, progress: Any = None) -> None:
            if "n1" in hosts:
                raise LabError('host n1: exec[0] "false": exit code 1')

        monkeypatch.setattr(HostReconciler, "set_up", refuse)
        with pytest.raises(LabError, match=r"exit code 1; the lab is as before$"):
            await changing.live.add_host("n1", vesws=["blue", "red"])
        assert "n1" not in lab.hosts
        assert facts_of(lab)["vnics"] == before["vnics"]


@pytest.mark.looptime
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("point", "nth"), [*((point, 1) for point in POINTS), ("em.apply", 2), ("let_manage", 3)]
)
async def test_change_that_fails_half_way_leaves_the_lab_as_it_was(point: str, nth: int, late: bool) -> None:
    async with lab_in_memory(TEXT + "faults: [loss on h4 1%, crash on em for=1ms]") as lab:
        await asyncio.sleep(1.0)
        changing = ChangingLab(lab)
        await changing.settle()
        await changing.fail(point, late=late, nth=nth)
        assert changing.done[0].startswith("fail")
        await changing.apply_saved()
        await changing.fail(point, late=late, nth=100)  # never
        assert changing.done[1] == "everything"


@pytest.mark.looptime
async def test_change_that_agents_do_not_answer_to_is_undone_once_they_do() -> None:
    async with lab_in_memory(PLAIN) as lab:
        changing, before = ChangingLab(lab), facts_of(lab)
        for change, host in ((changing.live.join, "h3"), (changing.live.leave, "h2")):
            fault = lab.world.faults.add(f"loss on {host} 100% l4=mad").number
            with pytest.raises(LabError, match=r"the agents do not answer; the lab is as before$"):
                await change("blue", [host])
            lab.world.faults.remove(fault)
            await changing.settle()
            assert differing(before, facts_of(lab)) == {}


@pytest.mark.looptime
async def test_change_waits_for_no_vnic_that_was_down_before() -> None:
    async with lab_in_memory(PLAIN) as lab:
        changing = ChangingLab(lab)
        fault = lab.world.faults.add("crash on h2").number
        assert await changing.live.join("blue", ["h3"]) == ["vesw join blue h3"]
        lab.world.faults.remove(fault)
        await changing.settle()


@pytest.mark.looptime
async def test_what_cannot_be_is_refused_before_anything_changes() -> None:
    async with lab_in_memory(PLAIN) as lab:
        links = list(lab.world.fabric.links)
        for old, new, said in (
            ("[h1, sw0:1]", "[h1, sw0:4]", "port sw0:4 is that of the managers"),
            ("{topology", "{id: 7, topology", "cannot change while the lab runs: fabric.id"),
        ):
            with pytest.raises(EditError, match=said):
                await LivingLab(lab).follow(parse_lab(PLAIN.replace(old, new), "lab.yaml", {}))
        assert lab.world.fabric.links == links


@pytest.mark.looptime
async def test_new_hosts_get_no_address_that_a_second_rail_has() -> None:
    async with lab_in_memory(TEXT) as lab:
        assert str(lab.interface("h3", "blue-2").address) == "10.9.2.12/24"
        for host in ("n1", "n2", "n3"):
            await LivingLab(lab).add_host(host, vesws=["blue"])
        assert [lab.model.numbers[host] for host in ("n1", "n2", "n3")] == [10, 11, 13]


@pytest.mark.looptime
async def test_addresses_that_a_host_gets_in_place_of_others_are_said_once() -> None:
    def text(number: int) -> str:
        return PLAIN.replace(
            "hosts: 3", f"hosts: {{h1: {{addresses: {{blue: 10.9.0.{number}/24}}}}, h2: {{}}, h3: {{}}}}"
        )

    async with lab_in_memory(text(50)) as lab:
        wanted = parse_lab(text(60), "lab.yaml", {})
        assert await LivingLab(lab).follow(wanted) == ["host h1: addresses"]


@pytest.mark.looptime
async def test_faults_of_a_changed_file_are_set_and_those_that_it_leaves_out_end() -> None:
    async with lab_in_memory(TEXT + "faults: [loss on h4 1%, loss on h1 2%]") as lab:
        wanted = parse_lab(TEXT + "faults: [loss on h1 2%, loss on h2 3%]", "lab.yaml", {})
        await LivingLab(lab).follow(wanted)
        now = {(fault["number"], fault["fault"]) for fault in lab.world.faults.show()}
        assert now == {(2, "loss on h1 probability=2%"), (3, "loss on h2 probability=3%")}


@pytest.mark.looptime
async def test_host_that_comes_has_devices_of_its_hfis_until_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Devices:
        def __init__(self) -> None:
            self.of: set[str] = set()

        def add(self, host: WorldHost) -> None:
            self.of.add(host.name)

        def remove(self, name: str) -> None:
            self.of.discard(name)

    async with lab_in_memory(PLAIN) as lab:
        monkeypatch.setattr(HostBackend, "has_our_devices", True)
        monkeypatch.setattr(lab, "devices", devices := Devices())
        await LivingLab(lab).add_host("n1")
        assert devices.of == {"n1"}
        await LivingLab(lab).remove_host("n1")
        assert devices.of == set()


@pytest.mark.looptime
async def test_host_of_a_part_neither_comes_nor_goes() -> None:
    text = PLAIN.replace("hosts: 3", "hosts: {h1: {}, h2: {}, h3: {lnet: {addresses: [10.77.0.1]}}}")
    async with lab_in_memory(text) as lab:
        live = LivingLab(lab)
        with pytest.raises(EditError, match=r"while the lab runs: hosts\.n1\.lnet;"):
            await live.add_host("n1", {"lnet": {"addresses": ["10.77.0.2"]}})
        with pytest.raises(EditError, match=r"while the lab runs: hosts\.h3\.lnet;"):
            await live.remove_host("h3")
        assert await live.add_host("n1") == ["host add n1"]


@pytest.mark.looptime
async def test_untrusted_lab_does_not_grow_beyond_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_PORTS", 3)
    async with lab_in_memory(PLAIN) as lab:
        with pytest.raises(EditError, match="4 HFI ports"):
            await LivingLab(lab, untrusted=True).add_host("h4", vesws=["blue"])
        assert "h4" not in lab.hosts


@pytest.mark.looptime
async def test_virtual_switches_stay_as_they_are_while_the_manager_is_down() -> None:
    async with lab_in_memory(TEXT) as lab:
        changing = ChangingLab(lab)
        fault = lab.world.faults.add("crash on em")
        with pytest.raises(LabError, match=r"virtual switches stay as they are: .*fault 1"):
            await changing.live.leave("blue", ["h2"])
        assert changing.members["blue"] == ["h1", "h2", "h3", "h3.2"]
        lab.world.faults.remove(fault.number)
        await changing.settle()
        await changing.leave("blue", "h2")
        assert changing.members["blue"] == ["h1", "h3", "h3.2"]


def no_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "with_ids", lambda data, *_: data)


def no_vports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "pinned_vports", lambda _: {})


def names_are_reserved_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostBackend, "reserved", {"blue", "red", "t12"})
    monkeypatch.setattr(HostBackend, "follow", lambda *_: [])


def addresses_of_rails_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opavnic.lab.change.live.with_addresses_of", lambda before, after, data: data)
    monkeypatch.setattr(HostBackend, "vesws_changed", lambda _: None)
    monkeypatch.setattr(HostBackend, "restore_vnics", lambda _: None)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("sabotage", "seen_in"),
    [
        (None, ()),
        (no_ids, ("lids", "vnics")),
        (no_vports, ("vnics",)),
        (names_are_reserved_for_ever, ("vnics",)),
        (addresses_of_rails_are_not_kept, ("vnics",)),
    ],
)
async def test_sabotage_breaks_the_law(
    sabotage: Any, seen_in: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lab_in_memory(TEXT) as lab:
        if sabotage is not None:
            sabotage(monkeypatch)
        changing = ChangingLab(lab)
        try:
            await changing.leave("blue", "h1")
            await changing.remove("h2" if sabotage is no_ids else "h4")
            await changing.join("blue", "h1")
            broken = {*differing(facts_of(lab), await _facts_of_fresh(save(lab).lab_file))}
        except AssertionError:  # a VNIC does not come up
            broken = {"vnics"}
    assert set(seen_in) <= broken
    assert bool(broken) == bool(seen_in)


async def _facts_of_fresh(text: str) -> dict[str, Any]:
    async with lab_in_memory(text) as fresh:
        return facts_of(fresh)


@pytest.mark.looptime
async def test_host_that_nothing_is_remembered_of_comes_back_as_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Remembered, "take", lambda *_: None)
    monkeypatch.setattr(Remembered, "get", lambda *_: None)
    async with lab_in_memory(TEXT) as lab:
        changing, before = ChangingLab(lab), of_host(lab, "h1")
        await changing.remove("h1")
        await changing.add("h1", ["blue", "red", "t12"])
        assert of_host(lab, "h1") != before


@pytest.mark.looptime
async def test_keys_of_a_virtual_switch_change_as_files_write_them() -> None:
    async with lab_in_memory(PLAIN) as lab:
        wanted = parse_lab(PLAIN.replace("id: 2,", "id: 2, pkey: 0x8005, mtu: 2000,"), "changed.yaml", {})
        assert await LivingLab(lab).follow(wanted) == ["vesw blue: pkey 0x8005", "vesw blue: mtu 2000"]
        assert {(vnic.mtu, vnic.is_up) for _, vnic in lab.status().vnics()} == {(2000, True)}
        assert all(0x8005 in lab.world.fabric.hfis[name].ports[1].pkeys.borne for name in ("h1", "h2"))


@pytest.mark.looptime
async def test_switch_that_comes_to_a_running_lab_has_the_lid_that_the_file_says() -> None:
    def with_sw1(data: Any, _: object) -> Any:
        topology = data["fabric"]["topology"]
        switches = {**topology["switches"], "sw1": {"ports": 4, "lid": 40}}
        links = [*topology["links"], ["sw0:9", "sw1:1"]]
        return {
            **data,
            "fabric": {**data["fabric"], "topology": {**topology, "switches": switches, "links": links}},
        }

    async with lab_in_memory(PLAIN) as lab:
        await LivingLab(lab).change(with_sw1)
        assert lab.world.fabric.switches["sw1"].port0.lid == 40
