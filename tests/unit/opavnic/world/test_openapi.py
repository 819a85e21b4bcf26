"""The control API as OpenAPI: valid, of every route, and true of a running lab."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from lab_in_memory import answering, lab_in_memory, served
from opavnic.base.state import counters_of
from opavnic.lab.change.service import serve_changes
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.runtime import LabDir
from opavnic.lab.run.daemon import lab_routes
from opavnic.lab.run.logs import LogHub
from opavnic.state.fabric import FaultAdded
from opavnic.state.lab import LabState, VnicStatus
from opavnic.world.openapi import Api, api_of, declared_routes
from tools.generate.api import LABS

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[4] / "docs" / "openapi.json").read_text())
QUERIES = {"/routes": "?from=h1&to=h2", "/lanes": "?on=h1"}
"""What requests need that are made to see what is answered."""
pytestmark = pytest.mark.usefixtures("own_runtime")
STREAMS = {"/capture", "/logs"}


@asynccontextmanager
async def running(text: str, tmp_path: Path) -> AsyncIterator[ClientSession]:
    async with lab_in_memory(text) as lab:
        hub = LogHub(tmp_path / "log")
        routes = lab_routes(serve_changes(lab), hub, lab.stop)
        silent = {route.path for route in routes if api_of(route.handler) is None}
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
    schemas: dict[str, Any] = {}
    for text in LABS:
        async with running(text, tmp_path) as http, http.get("/openapi.json") as answer:
            said = await answer.json()
        paths |= said["paths"]
        schemas |= said["components"]["schemas"]
        assert said | {"paths": {}, "components": {}} == DOCUMENT | {"paths": {}, "components": {}}
    assert (paths, schemas) == (DOCUMENT["paths"], DOCUMENT["components"]["schemas"])


def properties(schema: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every property in a schema, and what lists and objects hold, with its place."""
    for key, value in schema.items() if isinstance(schema, dict) else enumerate(schema):
        here = f"{place}/{key}"
        if key == "properties":
            yield from ((f"{here}/{name}", found) for name, found in value.items())
        elif key in ("items", "additionalProperties") and not isinstance(value, bool):
            yield here, value
        if isinstance(value, dict | list):
            yield from properties(value, here)


def test_handler_of_a_subclass_has_the_route_that_it_declares_anew() -> None:
    class Plain:
        @Api("GET /plain", "plain", "plain", LabState)
        async def show(self, _: web.Request) -> web.Response:
            return web.Response()

    class Other(Plain):
        @Api("GET /other", "other", "other", LabState)
        async def show(self, _: web.Request) -> web.Response:
            return web.Response()

    assert [route.path for route in declared_routes(Other())] == ["/other"]


def test_every_property_of_an_answer_has_a_type() -> None:
    answers = {path: one for path, operations in DOCUMENT["paths"].items() for one in operations.values()}
    found = dict(properties(DOCUMENT["components"]["schemas"]))
    for path, operation in answers.items():
        (content,) = operation["responses"]["200"]["content"].values()
        found |= {path: content["schema"], **dict(properties(content["schema"], path))}
    assert len(found) > 200
    assert [place for place, one in found.items() if not one.keys() & {"type", "$ref", "anyOf", "enum"}] == []


def test_counters_bring_their_unit_and_meaning_along() -> None:
    vnic = DOCUMENT["components"]["schemas"]["VnicStatus"]["properties"]
    for name, counter in counters_of(VnicStatus).items():
        assert vnic[name]["description"] == counter.meaning
        assert (vnic[name]["x-kind"], vnic[name]["x-unit"]) == ("counter", counter.unit)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/lanes?on=h1&what=x", 'unknown parameter of /lanes "what" (known: on)'),
        ("/routes?from=h1&to=h2&self=1", 'unknown parameter of /routes "self" (known: from, to)'),
        (
            "/status?conters=1",
            'unknown parameter of /status "conters" (nearest: "counters"; known: counters, drift)',
        ),
        ("/status?counters=ja", "counters='ja' is neither true nor false: counters=1 or counters=0"),
        ("/status?counters=", "counters='' is neither true nor false: counters=1 or counters=0"),
        ("/em/events?after=-1", "after='-1' is not a number from 0 to 999999999"),
        ("/jobs/x", "'x' is not the number of a job; see: opavnic job list"),
    ],
)
async def test_parameters_that_a_route_does_not_take_are_refused(
    http: ClientSession, path: str, said: str
) -> None:
    async with http.get(path) as answer:
        assert (answer.status, await answer.json()) == (400, {"error": said})


async def test_flags_of_a_query_are_true_or_false_in_both_spellings(http: ClientSession) -> None:
    for text, shown in (("1", True), ("true", True), ("True", True), ("0", False), ("false", False)):
        async with http.get(f"/status?counters={text}") as answer:
            assert ("counters" in await answer.json()) == shown, text


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/change", {"do": {}}, "do: {} is not text: host-add"),
        ("/change", {"do": []}, "do: [] is not text"),
        ("/change", {}, "do is missing: host-add"),
        ("/change", {"do": "host-ad"}, 'unknown change "host-ad" (nearest: "host-add"'),
        ("/change", {"do": "vesw-join", "name": "blue", "hosts": "h1"}, "hosts: 'h1' is not a list"),
        ("/change", {"do": "vesw-join", "name": "blue", "hosts": ["h1", 2]}, "hosts[1]: 2 is not text"),
        ("/change", {"do": "apply", "lab": []}, "lab: [] is not a mapping"),
        (
            "/change",
            {"do": "apply", "dryrun": True},
            'key of the body of change "dryrun" (nearest: "dry_run"',
        ),
        ("/faults", {"fault": 7}, "fault: 7 is not text"),
        ("/faults/remove", {"number": "1"}, "number: '1' is not a whole number or null"),
        ("/vnics/remove", {"lid": "x", "vports": []}, "lid: 'x' is not a whole number"),
    ],
)
async def test_body_that_a_route_does_not_take_is_refused(
    http: ClientSession, path: str, body: object, said: str
) -> None:
    async with http.post(path, json=body) as answer:
        found = (await answer.json())["error"]
        assert (answer.status, said in found) == (400, True), found


async def test_answers_are_of_the_type_that_the_document_states(http: ClientSession) -> None:
    asked = 0
    async with http.get("/openapi.json") as answer:
        own = (await answer.json())["paths"]
    for path, operations in own.items():
        if "get" not in operations or path in STREAMS or "{" in path:
            continue
        async with http.get(path + QUERIES.get(path, "")) as answer:
            data = await answer.json()
            assert answer.status == 200, (path, data)
        schema = operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        checker = Draft202012Validator({**schema, "components": DOCUMENT["components"]})
        assert [error.message for error in checker.iter_errors(data)] == [], path
        asked += 1
    assert asked >= 12


async def test_client_reads_answers_as_the_models_that_the_document_is_made_of(directory: LabDir) -> None:
    """A client of another language makes its types from the document; ours has them."""
    async with answering(directory, LABS[0]) as lab:
        client = LabClient(directory.control_socket)
        state = await asyncio.to_thread(client.read, LabState, "/status?counters=1")
        added = await asyncio.to_thread(client.change, FaultAdded, "/faults", {"fault": "loss on h1 20%"})
        here = lab.status(counters=True)
        with pytest.raises(LabError, match=r"lab x was started by another version of opavnic: number: Field"):
            await asyncio.to_thread(client.read, FaultAdded, "/faults")
    assert [(host.name, vnic.vesw, vnic.is_up) for host, vnic in state.vnics()] == [
        ("h1", "blue", True),
        ("h2", "blue", True),
    ]
    assert state.counters.keys() == here.counters.keys()
    assert [(fault.number, fault.on) for fault in added.faults] == [(added.number, "h1")]


async def test_types_made_from_the_document_read_every_answer(http: ClientSession, tmp_path: Path) -> None:
    """A client without our models: a generator makes its types from the document alone."""
    from datamodel_code_generator import DataModelType, Formatter, InputFileType, generate

    made = tmp_path / "lab_api.py"
    generate(
        json.dumps(DOCUMENT),
        input_file_type=InputFileType.OpenAPI,
        output=made,
        output_model_type=DataModelType.PydanticV2BaseModel,
        formatters=[Formatter.BUILTIN],
    )
    types = import_module_from(made)
    read: dict[str, Any] = {}
    async with http.post("/faults", json={"fault": "loss on h1 20%"}) as answer:
        added = types.FaultAdded.model_validate_json(await answer.text())
    for path, operations in (await (await http.get("/openapi.json")).json())["paths"].items():
        if "get" not in operations or path in STREAMS or "{" in path:
            continue
        schema = operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        if "$ref" in schema:
            async with http.get(path + QUERIES.get(path, "")) as answer:
                model = getattr(types, schema["$ref"].rpartition("/")[2])
                read[path] = model.model_validate_json(await answer.text())
    assert len(read) >= 10
    assert [(host.name, host.vnics[0].vesw) for host in read["/status"].hosts] == [
        ("h1", "blue"),
        ("h2", "blue"),
    ]
    assert [(fault.number, fault.on) for fault in read["/faults"].faults] == [(added.number, "h1")]


def import_module_from(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def test_lists_say_what_they_hold() -> None:
    """Generators refuse an operation with a list that does not: `type array must have items`."""
    lists = [one for one in schemas(DOCUMENT) if one.get("type") == "array"]
    assert len(lists) > 50
    assert [one for one in lists if "items" not in one] == []


def schemas(document: Any) -> Iterator[dict[str, Any]]:
    for value in document.values() if isinstance(document, dict) else document:
        if isinstance(value, dict | list):
            yield from schemas(value)
    if isinstance(document, dict):
        yield document


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
