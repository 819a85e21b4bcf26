"""What subnet administration says, beside what is: the built-in one, asked over the wire as a fabric manager is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.topology import Topology
from opavnic.management.fm_view import TABLES, fm_view
from opavnic.world.parts.management import ask_tables
from opavnic.world.world import World

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

PKEYS = {"blue": 0x8002, "red": 0x8003}


class Site:
    """Two leaves with a cable between them; h1 and h3, which asks, on the first, h2 on the second."""

    def __init__(self) -> None:
        topology = Topology("site")
        for switch in ("sw0", "sw1"):
            topology.switch(switch)
        for name, switch in (("em", "sw0"), ("h1", "sw0"), ("h3", "sw0"), ("h2", "sw1")):
            topology.hfi(name)
            topology.join(name, switch, LinkConfig(latency_ns=100_000))
        topology.join("sw0", "sw1", LinkConfig(latency_ns=100_000))
        self.world = World(topology, clock=asyncio.get_running_loop())
        self.ports = {name: host.port for name, host in self.world.hosts.items()}
        self.asker = self.ports["h3"]
        self.world.set_pkeys(self.ports["h1"], [PKEYS["blue"]])
        self.world.subnet_manager.set_management(self.asker, True)

    async def said(self) -> Any:
        return await ask_tables(self.asker, TABLES)

    def view(self, said: Any) -> dict[str, Any]:
        return fm_view(*said, self.world.fabric, self.asker, PKEYS).as_json()


@contextlib.asynccontextmanager
async def swept() -> AsyncIterator[Site]:
    """The site, once the subnet manager has set it up."""
    site = Site()
    async with site.world:
        site.world.subnet_manager.sweep()
        await asyncio.sleep(2.0)
        yield site


def differing(view: dict[str, Any]) -> dict[str, str]:
    return {
        row["name"]: row["differs"]
        for kind in ("nodes", "ports", "links")
        for row in view[kind]
        if row["differs"]
    }


async def test_view_of_a_calm_fabric_is_ours() -> None:
    async with swept() as site:
        view = site.view(await site.said())
        assert differing(view) == {}
        assert view["errors"] == {}
        assert {row["name"] for row in view["nodes"]} == {"em:1", "h1:1", "h2:1", "h3:1", "sw0", "sw1"}
        assert all(row["lid"] == row["fm_lid"] for row in view["nodes"])
        assert [(row["state"], row["fm_state"]) for row in view["links"]] == [("up", "there")] * 5
        assert [(row["port"], row["state"]) for row in view["managers"]] == [("em:1", "master")]


async def test_cut_cable_differs_until_the_manager_has_swept() -> None:
    async with swept() as site:
        before = await site.said()
        link = site.ports["h2"].link
        site.world.fabric.set_link(link, False)
        assert differing(site.view(before)) == {
            "h2:1": "the states differ",
            "sw1:1": "the states differ",
            link.name: "the fabric manager still has it",
        }
        await asyncio.sleep(2.0)
        assert differing(site.view(await site.said())) == {}, "what is cut off need not be known"


async def test_all_behind_a_cut_cable_is_still_known_and_then_is_not() -> None:
    async with swept() as site:
        before = await site.said()
        (between,) = (link for link in site.world.fabric.links if "sw0" in link.name and "sw1" in link.name)
        site.world.fabric.set_link(between, False)
        stale = differing(site.view(before))
        assert stale["sw1"] == "the fabric manager still has it"
        assert stale[between.name] == "the fabric manager still has it"
        await asyncio.sleep(2.0)
        assert differing(site.view(await site.said())) == {}
        site.world.fabric.set_link(between, True)
        await asyncio.sleep(2.0)
        assert differing(site.view(before)) == {}, "the same LIDs as before"


async def test_virtual_switch_without_a_virtual_fabric_is_named() -> None:
    async with swept() as site:
        rows = site.view(await site.said())["virtual_fabrics"]
        assert [(row["vesws"], row["differs"]) for row in rows if row["vesws"]] == [
            (["blue"], ""),
            (["red"], "the fabric manager has no virtual fabric with this P_Key"),
        ]


async def test_port_that_nobody_has_activated_asks_nobody() -> None:
    async with swept() as site:
        link = site.asker.link
        site.world.fabric.set_link(link, False)
        view = site.view(await site.said())
        assert set(view["errors"].values()) == {"h3:1 is DOWN: no fabric manager has activated it"}
        assert (view["nodes"], view["ports"], view["links"], view["differences"]) == ([], [], [], 0)
