"""Whatever is asked of the control API of a lab, it answers with JSON and a line, and the lab goes on as it was."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession, ClientTimeout, UnixConnector
from aiohttp.web import RouteDef

from lab_in_memory import lab_in_memory
from opavnic.lab.run.daemon import lab_routes
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.logs import LogHub
from opavnic.state.removed import Removed
from opavnic.world.parts.control import ControlServer

TEXT = """
name: fuzzed
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, members: [h1, h2]}]
"""
REQUESTS = 150
"""For each seed."""
NAMES = (
    "h1",
    "h2",
    "h1:1",
    "em",
    "sw0",
    "*",
    "blue",
    "",
    "h9",
    "\x1b[2J",
    "\u202e",
    "a" * 300,
    "\x00",
    "é",
    "h1/..",
)
NUMBERS = (0, 1, 2, -1, 4095, 4096, 1 << 31, 1 << 64, 10**400, 0.5, 1e308, -0.0)
WORDS = ("loss", "corrupt", "delay=5ms", "crash", "link-down", "on", "20%", "for=2s", "after=1s", "count=3", "l4=mad",
         "vesw=2", "bits=7", "500%", "delay=1y", "l4=300", "lid=-1", "seed", "=", "%")  # fmt: skip
QUERIES = (
    "on",
    "count",
    "l4",
    "vesw",
    "snap",
    "once",
    "buffer",
    "from",
    "to",
    "limit",
    "after",
    "counters",
    "diff",
    "x",
    "lid",
    "probability",
)
KEYS = (
    *(
        "vesws",
        "id",
        "name",
        "members",
        "mtu",
        "pkey",
        "fabric",
        "mac",
        "polling",
        "interval",
        "counters",
        "limits",
    ),
    *(
        "fault",
        "number",
        "addresses",
        "election",
        "text",
        "command",
        "network",
        "host",
        "x",
        "",
        "\ud800",
        "__class__",
    ),
)


@pytest.fixture
async def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path))
    async with lab_in_memory(TEXT) as running:
        yield running


def value(rng: random.Random, depth: int = 3) -> Any:
    """Return some JSON value, often of a shape that something asks for."""
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind == 1:
        return rng.choice(NUMBERS)
    if kind == 2:
        return rng.choice(NAMES)
    if kind == 3:
        return " ".join(rng.choices(WORDS + NAMES[:7], k=rng.randrange(6)))
    if kind == 4:
        return rng.choice(
            ("5s", "1h", "9" * 400, "10.0.0.0/8", "00:11:22:33:44:55", "learn", "all", "0x8001")
        )
    if kind == 5:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(KEYS): value(rng, depth - 1) for _ in range(rng.randrange(5))}


def body(rng: random.Random) -> bytes:
    """Return a body: JSON, or what somebody took for it."""
    if not rng.randrange(10):
        return rng.choice(
            (b"", b"{", b"[" * 5000, b"\xff\xfe", b"NaN", b'{"number": Infinity}', b"1" * 5000, b'"\\ud800"')
        )
    return json.dumps(value(rng)).encode()


@pytest.mark.parametrize("seed", range(8))
async def test_any_request_is_answered_in_one_line_and_leaves_the_lab_in_order(
    lab: Lab, tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    hub = LogHub(tmp_path / "log")

    async def down() -> Removed:
        return Removed(lab.model.name)

    routes = [route for route in lab_routes(lab, hub, down) if isinstance(route, RouteDef)]
    server = ControlServer(tmp_path / "sock", routes)
    await server.start()
    rng = random.Random(seed)
    try:
        connector = UnixConnector(str(tmp_path / "sock"))
        async with ClientSession("http://lab", connector=connector, timeout=ClientTimeout(40)) as http:
            for _ in range(REQUESTS):
                route = rng.choice(routes)
                method = route.method if rng.randrange(8) else rng.choice(("GET", "PUT", "DELETE", "POST"))
                query = {rng.choice(QUERIES): str(value(rng, 0)) for _ in range(rng.randrange(3))}
                path = route.path if rng.randrange(12) else f"/{quote(rng.choice(NAMES))}"
                if path == "/capture":  # one that is right goes on until somebody leaves
                    query["count"] = rng.choice(("x", "0", "-1", "1e3"))
                asked = f"{method} {path} {query}"
                text = "&".join(f"{key}={quote(text, errors='replace')}" for key, text in query.items())
                async with http.request(method, f"{path}?{text}", data=body(rng)) as response:
                    answer = await response.read()
                    assert response.status < 500, f"{asked}: {answer[:300]!r}"
                    if response.status >= 400 and method != "HEAD":
                        said = json.loads(answer)["error"]
                        assert said.strip(), asked
            async with http.post("/faults/remove", json={"number": None}) as response:
                assert response.status == 200
    finally:
        await server.close()
        hub.close()
    assert lab.status().balance == {}
    assert [record for record in caplog.records if record.exc_info] == []
