"""Pages about LNet and load balancers: what they show of a lab in memory, asked over its control socket."""

from __future__ import annotations

import time
from ipaddress import IPv4Address
from typing import Any

import pytest

from ejfat.control.members import Worker
from lab_in_memory import answering
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.runtime import LabDir
from opavnic.web.pages.watch import Watch
from opavnic.web.scene.part_page import (
    Answers,
    BarSection,
    NoteSection,
    PartPage,
    PlotSection,
    Section,
    TableSection,
    installed_pages,
)

pytestmark = pytest.mark.usefixtures("own_runtime")

LNET = """
name: x
hosts:
  a: {hfis: 2, lnet: {networks: "o2ib0(ib0,ib1)", addresses: [10.1.1.1, 10.1.1.2]}}
  b: {hfis: 2, lnet: {networks: "o2ib0(ib0,ib1)", addresses: [10.1.1.3, 10.1.1.4]}}
"""
LB = """
name: x
hosts: {lb: {}, s: {}, w1: {}}
vesws: [{id: 7, name: daq, subnet: 10.7.0.0/24, members: [lb, s, w1]}]
apps: [{kind: ejfat-lb, host: lb, options: {senders: [s], period: 50ms}}]
"""


def page_named(name: str) -> PartPage:
    return next(page for page in installed_pages() if page.name == name)


async def shown(watch: Watch, page: PartPage, before: dict[str, Any] | None = None) -> dict[str, Section]:
    """What a page shows a second after it showed `before`, by the titles of its sections."""
    now = await asked(watch, page)
    sections = page.sections(Answers(now, now if before is None else before, 1.0))
    return {section.title: section for section in sections}


async def asked(watch: Watch, page: PartPage) -> dict[str, Any]:
    return {path: await watch.get(path) for path in page.asks(await watch.look(fresh=True))}


def table(sections: dict[str, Section], title: str) -> list[dict[str, object]]:
    found = sections[title]
    assert isinstance(found, TableSection)
    assert all(row.keys() >= found.columns.keys() for row in found.rows), "a column without values"
    return [dict(row) for row in found.rows]


async def test_lnet_page_shows_interfaces_routes_and_their_rates(directory: LabDir) -> None:
    page = page_named("lnet")
    async with answering(directory, LNET) as lab:
        watch = Watch(directory.control_socket)
        before = await asked(watch, page)
        part: Any = lab.parts.by_name["lnet"]
        await part.host("a").send(part.host("b").first_nid(), count=6, size=1000)
        sections = await shown(watch, page, before)
    nis = table(sections, "Network interfaces")
    assert [ni["interface"] for ni in nis] == ["a/ib0", "a/ib1", "b/ib0", "b/ib1"]
    assert {(ni["state"], ni["credits"], ni["health"]) for ni in nis} == {
        ("PORT_ACTIVE", 256, "1000 of 1000")
    }
    routes = table(sections, "Routes")
    assert sum(int(str(route["messages"])) for route in routes) == 6
    assert sum(int(str(route["bytes"])) for route in routes) == 6000
    plot, bars = sections["Payload by route"], sections["Messages by route"]
    assert isinstance(plot, PlotSection)
    assert isinstance(bars, BarSection)
    assert set(plot.values) == {route["route"] for route in routes}
    assert bars.bars == ["a, o2ib", "b, o2ib"]
    assert {tuple(lengths) for lengths in bars.pieces.values()} == {(3.0, 0.0)}
    peers = table(sections, "Peers")
    assert [(peer["sent"], peer["waiting"]) for peer in peers if "a: " in str(peer["peer"])] == [(6, 0)]
    connections = table(sections, "Connections")
    assert len(connections) == 4, "two routes, each with an end on either host"
    assert {conn["credits"] for conn in connections} == {"8 of 8", "5 of 8"}, "three messages on each route"


async def test_lnet_page_says_of_a_crashed_host_why_it_shows_nothing(directory: LabDir) -> None:
    page = page_named("lnet")
    async with answering(directory, LNET) as lab:
        watch = Watch(directory.control_socket)
        assert await watch.change("/faults", {"fault": "crash on b"}) == ""
        sections = await shown(watch, page)
        assert lab.status().parts["lnet"]["a"] == "10.1.1.1@o2ib"
    down = sections["b"]
    assert isinstance(down, NoteSection)
    assert down.wrong
    assert "has crashed" in down.text
    assert [ni["interface"] for ni in table(sections, "Network interfaces")] == ["a/ib0", "a/ib1"]


async def test_load_balancer_page_shows_workers_and_their_slots(directory: LabDir) -> None:
    page = page_named("ejfat")
    async with answering(directory, LB) as lab:
        watch = Watch(directory.control_socket)
        plane = lab.parts.apps["lb"].app.plane  # type: ignore[attr-defined]
        now = time.time()
        for name, port in (("{b|x}<b>", 20000), ("w1", 10000)):
            worker = Worker(name=name, ip=IPv4Address("10.7.0.3"), port=port)
            plane.register(plane.get("1"), worker, now)
        before = await asked(watch, page)
        plane.get("1").balancer.session(2).fill = 0.25
        plane.prepare(now)
        plane.connect(now)
        plane.sample(now)
        sections = await shown(watch, page, before)
    workers = {row["worker"]: row for row in table(sections, "Reservation 1 on lb: workers")}
    assert set(workers) == {"{b|x}<b> #1", "w1 #2"}
    assert workers["w1 #2"]["address"] == "10.7.0.3:10000"
    bars = sections["Reservation 1 on lb: slots by epoch"]
    assert isinstance(bars, BarSection)
    assert [sum(lengths) for lengths in zip(*bars.pieces.values(), strict=True)] == [512.0]
    head = sections["Reservation 1 on lb"]
    assert isinstance(head, NoteSection)
    assert "senders 10.7.0.2" in head.text


async def test_pages_are_there_only_in_labs_that_have_something_for_them(directory: LabDir) -> None:
    async with answering(directory, LB):
        watch = Watch(directory.control_socket)
        seen = await watch.look()
        assert [page.name for page in installed_pages() if page.asks(seen)] == ["ejfat"]
        with pytest.raises(LabError, match='unknown part "weather"'):
            await watch.get("/parts/weather")
