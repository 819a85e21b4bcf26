"""Packets of a trace put together hop by hop, and MADs as a sequence diagram: as files, and on a page."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.wire.lrh16b import L4, l4_of
from opavnic.cli.main import main
from opavnic.observe.drawings import sequence
from opavnic.observe.journeys import journeys, messages
from opavnic.observe.pages import fields_html, packet_page
from opavnic.observe.trace_file import read_journeys
from opavnic.scenario import Hosts, Scenario, ScenarioEm

pytestmark = pytest.mark.topology("clos", leaves=2, spines=2, hosts_per_leaf=2)


async def test_each_packet_goes_from_host_to_host_by_links_that_join(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    assert await hosts["h1"].ping(hosts["h4"]) == 1
    found = journeys(lab.trace.records)
    assert sum(len(journey.hops) for journey in found) == len(lab.trace.records)
    pings = [journey for journey in found if l4_of(journey.packet) == L4.ETHERNET]
    assert [(journey.source, journey.target) for journey in pings if len(journey.hops) == 4][-2:] == [
        ("h1", "h4"),
        ("h4", "h1"),
    ]
    for journey in found:
        reached = {journey.source}
        for hop in journey.hops:
            assert hop.near in reached
            reached.add(hop.far)


async def test_lost_packet_says_where_and_why(
    lab: Scenario, hosts: Hosts, em: ScenarioEm, tmp_path: Path
) -> None:
    await em.vesw("blue", members=hosts)
    lab.faults.add("loss on h4 100% l4=ethernet")
    assert await hosts["h1"].ping(hosts["h4"]) == 0
    lost = [hop for journey in journeys(lab.trace.records) if (hop := journey.dropped) is not None]
    assert lost
    assert {(hop.far, hop.drop) for hop in lost} == {("h4", Drop.LINK_FAULT)}
    file = tmp_path / "<b>.pcapng"
    lab.write_pcapng(file)
    assert main(["draw", str(file), str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "<b>" not in page
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="http', page)
    assert "dropped: link_fault" in page
    assert "VeswPortInfo: pkey of the virtual switch" in page
    for drawing in re.findall(r"<svg.*?</svg>", page, flags=re.S):
        ElementTree.fromstring(drawing)  # noqa: S314 - drawn here
    assert packet_page(read_journeys(file), "x").count("<details") == page.count("<details")


async def test_exchange_of_the_em_is_drawn_from_manager_to_agent_and_back(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    mads = messages(journeys(lab.trace.records))
    asked = next(mad for mad in mads if (mad.method, mad.attribute) == ("Set", "VeswPortInfo"))
    answer = next(
        mad
        for mad in mads[asked.number :]
        if mad.attribute == "VeswPortInfo" and mad.journey.source == asked.journey.target
    )
    assert (asked.journey.source, answer.journey.target, answer.method) == ("em", "em", "GetResp")
    assert "who decided it" not in fields_html(asked.journey.packet)  # no VNIC chose the SC of a MAD
    assert sequence(mads, link="#mad-").svg("x").count('<a href="#mad-') == len(mads)


async def test_lost_mad_and_its_repetition_are_marked(lab: Scenario, hosts: Hosts, em: ScenarioEm) -> None:
    lab.faults.add("loss on h2 l4=mad count=1")
    await em.vesw("blue", members=hosts)
    mads = messages(journeys(lab.trace.records))
    assert [mad.is_wrong for mad in mads].count(True) == 1
    assert max(mad.sendings for mad in mads) == 2
    assert "again (2)" in sequence(mads).svg("x")
