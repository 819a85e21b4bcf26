"""Steering over the control API: ways by host or LID hold and are shown; what cannot be is refused in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from lab_in_memory import lab_in_memory, served

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

LAB = """
name: steered
fabric: {topology: {kind: clos, leaves: 2, spines: 2}}
hosts: 4
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: all}]
"""


async def ask(session: ClientSession, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
    async with session.get(path) if body is None else session.post(path, json=body) as answer:
        return answer.status, await answer.json()


async def way(session: ClientSession) -> str:
    """The second step from h1 to h3."""
    _, routes = await ask(session, "/routes?from=h1&to=h3")
    return str(routes["paths"][0][1])


async def test_packets_to_a_host_take_the_port_that_a_program_says(tmp_path: Path) -> None:
    async with lab_in_memory(LAB) as lab, served(lab.routes(), tmp_path) as session:
        planned = await way(session)
        lid = str(lab.world.hosts["h3"].port.lid)
        for port in (3, 4):
            for name in ("h3", "h3:1", lid, hex(int(lid))):
                assert await ask(session, "/steering", {"ways": {"leaf0": {name: port}}}) == (
                    200,
                    {"ways": {"leaf0": {lid: port}}},
                )
                assert await way(session) == f"leaf0:{port}"
        assert await ask(session, "/steering") == (200, {"ways": {"leaf0": {lid: 4}}})
        assert await ask(session, "/steering", {"ways": {}}) == (200, {"ways": {}})
        assert await way(session) == planned


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "ways is missing"),
        ({"ways": []}, "is not a mapping"),
        ({"ways": {"leaf0": 4}}, "ways are a mapping of switches to mappings"),
        ({"ways": {"leaf0": {"h9": 4}}}, 'unknown host, HFI port or LID "h9"'),
        ({"ways": {"leaf0": {"h3": "4"}}}, "switch leaf0: h3: '4' is not the number of a port"),
        ({"ways": {"leaf0": {"h3": True}}}, "switch leaf0: h3: True is not the number of a port"),
        ({"ways": {"leaf7": {"h3": 4}}}, 'unknown switch "leaf7"'),
        ({"ways": {"leaf0": {"h3": 99}}}, "switch leaf0 has no port 99"),
        ({"ways": {"leaf0": {"99": 4}}}, "no port of the fabric has the LID 0x63"),
        ({"ways": {"leaf0": {"h3": 1}}}, "is not behind port 1"),
    ],
)
async def test_what_leads_nowhere_is_refused_and_changes_nothing(
    tmp_path: Path, body: object, why: str
) -> None:
    async with lab_in_memory(LAB) as lab, served(lab.routes(), tmp_path) as session:
        planned = await way(session)
        status, answer = await ask(session, "/steering", body)
        assert status in (400, 409), answer
        assert why in answer["error"]
        assert (await way(session), await ask(session, "/steering")) == (planned, (200, {"ways": {}}))


async def test_a_fabric_with_a_manager_of_its_own_is_not_steered(tmp_path: Path) -> None:
    text = LAB + "subnet_manager: external\n"
    async with lab_in_memory(text) as lab, served(lab.routes(), tmp_path) as session:
        status, answer = await ask(session, "/steering", {"ways": {}})
        assert (status, "has no subnet manager of its own" in answer["error"]) == (409, True)
