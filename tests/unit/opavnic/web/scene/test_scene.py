"""What the web view shows of a lab in memory, asked over its control socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest

from hfi_sim.fabric.topology.ibnet import loads
from lab_in_memory import answering
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.runtime import LabDir
from opavnic.lab.run.lab import Lab
from opavnic.observe.rates import rates
from opavnic.state.fabric import FaultsSet, TopologyState
from opavnic.state.lab import LabState
from opavnic.web.pages.watch import Watch
from opavnic.web.scene.fabric_chart import (
    DOWN,
    PATH,
    busiest,
    colour,
    described,
    drop_lines,
    fabric_chart,
    plan_of,
)
from opavnic.web.scene.fold import GROUP, IDLE, RATES, USES, about, folded, level_of
from opavnic.web.scene.layout import Room, layout
from opavnic.web.scene.scene import Scene, elsewhere_text, scene

LAB = """
name: x
fabric: {topology: {kind: clos, leaves: 2, spines: 2, hosts_per_leaf: 1}}
hosts: {h1: {}, h2: {}}
vesws:
- {id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}
- {id: 3, name: red, subnet: 10.9.3.0/24, members: [h1]}
"""


pytestmark = pytest.mark.usefixtures("own_runtime")
WINDOW = Room(1000, 600)


def chart(seen: Scene, *more: Any, room: Room = WINDOW, **options: Any) -> dict[str, Any]:
    """The drawing of what is to be seen: its only series."""
    (series,) = fabric_chart(seen, layout(plan_of(seen), room), room, *more, **options)["series"]
    return dict(series)


def said(drawn: dict[str, Any]) -> list[str]:
    """What is said about links."""
    return [row["label"]["formatter"] for row in drawn["data"] if row["id"].startswith("about link")]


async def ping(lab: Lab) -> None:
    responder = lab.interface("h1", "blue").memory_host
    assert responder is not None
    assert await responder.ping(IPv4Address("10.9.2.2"), 5, 5.0) == 5


def link_of(seen: Scene, node: str) -> str:
    return next(link.name for link in seen.links if node in (link.a, link.b))


async def test_nodes_links_and_vnics_are_those_of_the_lab(directory: LabDir) -> None:
    async with answering(directory, LAB):
        seen = await Watch(directory.control_socket).look()
    hosts = {node.name: node for node in seen.nodes if node.kind == "host"}
    assert set(hosts) == {"h1", "h2"}
    assert hosts["h1"].vesws == {"blue", "red"}
    assert hosts["h2"].vesws == {"blue"}
    assert hosts["h1"].lid
    assert sum(node.kind == "switch" for node in seen.nodes) == 4
    assert all(link.up for link in seen.links)


async def test_traffic_shows_on_the_links_it_takes_in_its_direction(directory: LabDir) -> None:
    async with answering(directory, LAB) as lab:
        watch = Watch(directory.control_socket)
        await watch.look()
        await ping(lab)
        seen = await watch.look(fresh=True)
    for node in ("h1", "h2"):
        link = seen.link(link_of(seen, node))
        assert link is not None
        assert link.bits_forth > 0
        assert link.bits_back > 0
    assert watch.history[-1][1]["h1", "blue"]["tx_bytes"] > 0


async def test_cut_link_and_its_fault_show_where_they_are(directory: LabDir) -> None:
    async with answering(directory, LAB) as lab:
        watch = Watch(directory.control_socket)
        name = link_of(await watch.look(), "h2")
        assert await watch.change("/faults", {"fault": f"link-down on {name}"}) == ""
        seen = await watch.look(fresh=True)
        link = seen.link(name)
        assert link is not None
        assert (link.up, link.faults) == (False, (1,))
        assert colour(link) == DOWN
        assert name in described(seen)
        assert [other.name for other in seen.links if other.faults] == [name]
        assert await watch.change("/faults/remove", {"number": 1}) == ""
        link = (await watch.look(fresh=True)).link(name)
        assert link is not None
        assert link.up
        await lab.stop()


async def test_link_that_is_cut_in_one_direction_says_in_which(directory: LabDir) -> None:
    async with answering(directory, LAB):
        watch = Watch(directory.control_socket)
        for fault in ("link-down on h2->leaf1", "loss on h1:1 10%"):
            assert await watch.change("/faults", {"fault": fault}) == ""
        seen = await watch.look(fresh=True)
    assert sorted(said(chart(seen))) == ["⚠ 2", "✕ down to leaf1  ⚠ 1"]
    assert link_of(seen, "h2") in described(seen).partition("down: ")[2]


async def test_wrong_fault_is_said_and_a_lab_that_ended_too(directory: LabDir) -> None:
    watch = Watch(directory.control_socket)
    async with answering(directory, LAB):
        said = await watch.change("/faults", {"fault": "loss on h9 10%"})
        assert "h9" in said
    with pytest.raises(LabError):
        await watch.look(fresh=True)


async def test_pages_that_ask_within_a_second_share_a_look(directory: LabDir) -> None:
    now = [0.0]
    async with answering(directory, LAB):
        watch = Watch(directory.control_socket, lambda: now[0])
        first = await watch.look()
        now[0] = 0.9
        assert await watch.look() is first
        now[0] = 1.1
        assert await watch.look() is not first


async def test_saved_run_names_what_came_since_the_pages_have_looked(directory: LabDir) -> None:
    timeline = pytest.importorskip("opavnic.web.pages.timeline")
    async with answering(directory, LAB):
        watch = Watch(directory.control_socket, lambda: 0.0)
        name = link_of(await watch.look(), "h2")
        assert await watch.change("/faults", {"fault": f"link-down on {name}"}) == ""
        text = await timeline.saved_run(watch)
    assert f"1 fault is set: link-down on {name}; 1 link is down: {name}" in text


async def test_other_virtual_switches_are_faint_and_a_path_is_marked(directory: LabDir) -> None:
    async with answering(directory, LAB):
        seen = await Watch(directory.control_socket).look()
    drawn = chart(seen, "red", {"h1:1->leaf1:1": "VL 0 waits"})
    opacity = {row["id"]: row["itemStyle"]["opacity"] for row in drawn["data"]}
    assert opacity["h1"] == 1
    assert opacity["h2"] < 1
    marked = {row["value"] for row in drawn["links"] if row["lineStyle"]["color"] == PATH}
    assert marked == {link.name for link in seen.links if {link.a, link.b} == {"h1", "leaf1"}}
    tips = [row["tooltip"]["formatter"] for row in drawn["links"] if row["value"] in marked]
    assert all("h1:1->leaf1:1: VL 0 waits" in text for text in tips)


async def test_drawing_stays_while_a_flow_is_about_as_fast(directory: LabDir) -> None:
    """It is sent and drawn anew, whole: once a second with a flow, if it showed each figure."""
    async with answering(directory, LAB):
        seen = await Watch(directory.control_socket).look()

    def at(share: float) -> object:
        first, *others = seen.links
        busy = replace(first, bits_forth=share * first.rate_bps_forth)
        return chart(replace(seen, links=(busy, *others)))

    assert at(0.029) == at(0.033)
    assert len({str(at(share)) for share in (0.0, 0.005, 0.05, 0.3, 0.6, 0.9)}) == 6


async def test_slow_flow_on_a_fast_link_is_seen_with_its_rate_and_direction(directory: LabDir) -> None:
    async with answering(directory, LAB):
        seen = await Watch(directory.control_socket).look()
    first, *others = (replace(link, bits_forth=0.0, bits_back=0.0) for link in seen.links)
    busy = replace(seen, links=(replace(first, bits_forth=2.4e9, rate_bps_forth=100e9), *others))
    arrows = [row for row in chart(busy)["links"] if "symbol" in row]
    assert [(row["source"], row["target"]) for row in arrows] == [(first.a, first.b)]
    assert said(chart(busy)) == ["2G"]
    assert arrows[0]["lineStyle"]["width"] > chart(seen)["links"][0]["lineStyle"]["width"]
    assert busiest(busy, 3) == [f"2.4 Gbit/s  {first.a} -> {first.b}"]


async def test_chatter_on_a_link_is_faint_and_points_nowhere(directory: LabDir) -> None:
    """Two hosts that only tell each other that they are there would look busy."""
    async with answering(directory, LAB):
        seen = await Watch(directory.control_socket).look()
    first, *others = (replace(link, bits_forth=0.0, bits_back=0.0) for link in seen.links)

    def drawn(bits: float, *, by_use: bool) -> tuple[str, float, list[str]]:
        link = replace(first, bits_forth=bits, bits_back=0.0, rate_bps_forth=100e9)
        rows = chart(replace(seen, links=(link, *others)), by_use=by_use)
        (flow,) = (row for row in rows["links"] if "symbol" in row)
        return flow["symbol"][1], flow["lineStyle"]["opacity"], said(rows)

    for by_use in (True, False):
        assert drawn(20e3, by_use=by_use) == ("none", 0.5, [])
    assert drawn(0.9e9, by_use=True) == ("none", 0.5, ["1G"])
    assert drawn(1.1e9, by_use=True) == ("arrow", 1, ["1G"])
    assert drawn(1.1e6, by_use=False) == ("arrow", 1, ["1M"])


async def test_what_is_wrong_is_said_by_a_sign_too(directory: LabDir) -> None:
    async with answering(directory, LAB):
        seen = await Watch(directory.control_socket).look()
    first, *others = seen.links
    wrong = replace(seen, links=(replace(first, up=False, faults=(7,), drops=3.0), *others))
    assert said(chart(wrong)) == ["✕ down  ⚠ 7  ▼ drops"]


def test_rates_are_said_to_a_fifth_and_each_is_on_one_level() -> None:
    said = [about(bits) for bits in (0, 9.9e3, 1e4, 1.67e6, 3.33e6, 2.4e9, 4.9e9, 9.9e10, 1e13)]
    assert said == ["", "", "10k", "1.5M", "3M", "2G", "5G", "100G", "10T"]
    assert [level_of(level.below / 2) for level in RATES[:-1]] == list(RATES[:-1])
    assert level_of(RATES[-2].below) is RATES[-1]
    assert [level_of(level.below * 0.9e9, 1e9) for level in USES[1:-1]] == list(USES[1:-1])
    assert level_of(0.75e9, 1e9) is USES[-1]
    assert level_of(9.9e3, 1e4) is IDLE


async def test_colours_say_how_much_of_a_link_is_used_or_how_fast_a_flow_is(directory: LabDir) -> None:
    """A full link of 30M is as red as a full one of 100G; by bits a second it is not."""
    async with answering(directory, LAB):
        seen = await Watch(directory.control_socket).look()

    def colour(bits: float, rate_bps: float, *, by_use: bool) -> str:
        first, *others = (replace(link, bits_forth=0.0, bits_back=0.0) for link in seen.links)
        busy = replace(seen, links=(replace(first, bits_forth=bits, rate_bps_forth=rate_bps), *others))
        rows = chart(busy, by_use=by_use)["links"]
        (arrow,) = [row for row in rows if "symbol" in row]
        return str(arrow["lineStyle"]["color"])

    assert colour(29e6, 30e6, by_use=True) == colour(99e9, 100e9, by_use=True) == USES[-1].colour
    assert colour(10e9, 100e9, by_use=True) == USES[3].colour
    assert colour(29e6, 30e6, by_use=False) == RATES[3].colour
    assert colour(10e9, 100e9, by_use=False) == RATES[-1].colour


MANY = """
name: x
fabric: {topology: {kind: clos, leaves: 2, spines: 1, hosts_per_leaf: 3}}
hosts: {h1: {}, h2: {}, h3: {}, h4: {}, h5: {}, h6: {}}
vesws: [{id: 2, name: blue, members: all}]
"""


async def test_folded_hosts_keep_what_flows_and_what_is_wrong(directory: LabDir) -> None:
    async with answering(directory, MANY):
        watch = Watch(directory.control_socket)
        assert await watch.change("/faults", {"fault": "link-down on h2"}) == ""
        seen = await watch.look(fresh=True)
    seen = replace(seen, links=tuple(replace(link, bits_forth=1e6, bits_back=2e6) for link in seen.links))
    drawn = folded(seen)
    groups = {node.name: node for node in drawn.nodes if node.kind == GROUP}
    assert set(groups) == {"3 hosts of leaf0", "3 hosts of leaf1"}
    assert groups["3 hosts of leaf0"].faults == (1,)
    assert groups["3 hosts of leaf0"].wrong.startswith("h2: ")
    (together,) = (link for link in drawn.links if link.a == "3 hosts of leaf0")
    assert (together.b, together.bits_forth, together.bits_back) == ("leaf0", 3e6, 6e6)
    assert (together.cables, together.down) == (3, 1)
    assert "3 links of leaf0, 1 down" in described(drawn)
    assert {node.name for node in folded(seen, {"leaf0"}).nodes} >= {"h1", "h2", "h3", "3 hosts of leaf1"}


async def test_names_are_on_a_phone_too(directory: LabDir) -> None:
    async with answering(directory, MANY):
        seen = await Watch(directory.control_socket).look()
    for shown in (seen, folded(seen)):
        rows = chart(shown, room=Room(360, 420, print=11))["data"]
        assert all(row["label"]["show"] for row in rows)
        texts = {row["name"]: row["label"]["formatter"].partition("\n")[0] for row in rows}
        assert texts["leaf0"] == "leaf0"
        assert (texts.get("h1"), texts.get("3 hosts of leaf0")) in (("h1", None), (None, "3 hosts"))


async def changed(directory: LabDir, change: Callable[[dict[str, Any]], None]) -> Scene:
    """What is to be seen of a lab whose state has been changed."""
    client = LabClient(directory.control_socket)
    async with answering(directory, LAB):
        status = await asyncio.to_thread(client.get, "/status")
        fabric = await asyncio.to_thread(client.read, TopologyState, "/topology")
        faults = await asyncio.to_thread(client.read, FaultsSet, "/faults")
    change(status)
    state = LabState.of_json(status)
    return scene(loads(fabric.ibnetdiscover), fabric, faults, rates(state, state, 1.0))


async def test_lab_on_several_machines_says_which_one_answers_for_its_apps(directory: LabDir) -> None:
    def spread(status: dict[str, Any]) -> None:
        status["cluster"] = {
            "machine": "alpha", "placed": ["alpha", "beta"], "there": ["alpha", "beta"], "manager": "alpha",
            "links": [], "clocks": {},
        }  # fmt: skip
        for host, machine in zip(status["hosts"], ("alpha", "beta"), strict=True):
            host["machine"] = machine
        status["apps"] = [{"kind": "ejfat-lb", "host": "h1"}, {"kind": "ejfat-lb", "host": "h2"}]

    seen = await changed(directory, spread)
    assert seen.app_hosts == [("ejfat-lb", "h1")]
    assert elsewhere_text(seen).endswith(
        "machine alpha. For the others, start `opavnic web` there: beta (1 host)."
    )
    here = seen.state.model_copy(update={"cluster": None})
    assert elsewhere_text(replace(seen, state=here)) == ""


async def test_name_with_direction_and_control_characters_is_shown_as_such(directory: LabDir) -> None:
    """An Ethernet Manager may give a virtual switch any name."""

    def rename(status: dict[str, Any]) -> None:
        status["hosts"][0]["vnics"][0]["vesw"] = "\u202eeulb\n"

    seen = await changed(directory, rename)
    assert r"\u202eeulb\n" in seen.vesws
    drawn = chart(seen)
    assert "\u202e" not in json.dumps(drawn, ensure_ascii=False)


async def test_lab_that_is_started_anew_has_no_history_of_the_one_before(directory: LabDir) -> None:
    async with answering(directory, LAB):
        watch = Watch(directory.control_socket)
        await watch.look()
        await watch.look(fresh=True)
        assert len(watch.history) == len(watch.totals) == 1
        watch._pid += 1
        await watch.look(fresh=True)
    assert not watch.history


def test_drops_are_those_since_the_page_was_opened_with_what_they_mean() -> None:
    opened = {"h1:1 rx": {"vnic_no_vesw": 17}, "sw0:2->h1:1": {"link_fault": 1}}
    assert drop_lines(opened, opened, 9) == [
        "before that 18, most of them vnic_no_vesw, harmless while a lab starts or changes"
    ]
    now = {**opened, "sw0:2->h1:1": {"link_fault": 1152}, "x": {"a part's own": 2}}
    first, second, _ = drop_lines(now, opened, 9)
    assert first.startswith("1,151 link_fault at sw0:2->h1:1: ")
    assert len(first) > len("1,151 link_fault at sw0:2->h1:1: ")
    assert second == "2 a part's own at x: a drop"
    assert drop_lines(now, {}, 1) == drop_lines(now, {}, 9)[:1]
