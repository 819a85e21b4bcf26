"""The control API as OpenAPI: valid, of every route, and true of a running lab."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from openapi_spec_validator import validate

from lab_in_memory import lab_in_memory, served
from opavnic.lab.run.daemon import lab_routes
from opavnic.lab.run.logs import LogHub
from opavnic.world.openapi import api_of
from tools.generate.api import LABS

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[4] / "docs" / "openapi.json").read_text())
QUERIES = {"/routes": "?from=h1&to=h2", "/lanes": "?on=h1"}
"""What requests need that are made to see what is answered."""
STREAMS = {"/capture", "/logs"}


@asynccontextmanager
async def running(text: str, tmp_path: Path) -> AsyncIterator[ClientSession]:
    async with lab_in_memory(text) as lab:
        hub = LogHub(tmp_path / "log")
        routes = lab_routes(lab, hub, lab.stop)
        silent = {route.path for route in routes if api_of(route) is None}
        assert silent <= DOCUMENT["paths"].keys(), "a route declares nothing"
        async with served(routes, tmp_path) as session:
            yield session
        hub.close()


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[ClientSession]:
    async with running(LABS[0], tmp_path) as session:
        yield session


def test_document_is_openapi() -> None:
    validate(DOCUMENT)


async def test_running_labs_have_the_documented_routes_and_no_other(tmp_path: Path) -> None:
    paths: dict[str, Any] = {}
    for text in LABS:
        async with running(text, tmp_path) as http, http.get("/openapi.json") as answer:
            said = await answer.json()
        paths |= said["paths"]
        assert said | {"paths": {}} == DOCUMENT | {"paths": {}}
    assert paths == DOCUMENT["paths"]


async def test_names_that_no_query_has_change_nothing(http: ClientSession) -> None:
    for path in ("/lanes?on=h1&what=x", "/lanes?on=h1&on=h1", "/routes?from=h1&to=h2&self=1&query=2"):
        async with http.get(path) as answer:
            assert answer.status == 200, (path, await answer.text())


async def test_answers_have_the_keys_that_the_document_states(http: ClientSession) -> None:
    asked = 0
    async with http.get("/openapi.json") as answer:
        own = (await answer.json())["paths"]
    for path, operations in own.items():
        if "get" not in operations or path in STREAMS or "{" in path:
            continue
        async with http.get(path + QUERIES.get(path, "")) as answer:
            data = await answer.json()
            assert answer.status == 200, (path, data)
        content = operations["get"]["responses"]["200"]["content"]["application/json"]
        assert set(content["schema"].get("required", ())) <= data.keys(), path
        asked += 1
    assert asked >= 12


async def test_what_must_be_there_is_missed(http: ClientSession) -> None:
    for path, operations in DOCUMENT["paths"].items():
        if (
            "{" not in path
            and "get" in operations
            and any(one["required"] for one in operations["get"].get("parameters", ()))
        ):
            async with http.get(path) as answer:
                assert answer.status == 400
                assert (await answer.json()).keys() == {"error"}


async def test_lanes_say_what_each_has_carried(http: ClientSession) -> None:
    async with http.get("/lanes?on=h1") as answer:
        ways = {way["name"]: way for way in (await answer.json())["directions"]}
    (first,) = ways["h1:1->sw0:2"]["vls"]
    assert first["packets"] > 0
    assert first["credits"] is None
    async with http.get("/routes?from=h1&to=h2") as answer:
        (hops,) = (await answer.json())["hops"]
    assert [hop["name"] for hop in hops] == ["h1:1->sw0:2", "sw0:3->h2:1"]
    async with http.get("/lanes?on=h9") as answer:
        assert "h9" in (await answer.json())["error"]
