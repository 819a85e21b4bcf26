"""The control socket of a lab: too many connections, and those that say nothing, do no harm."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from lab_in_memory import lab_in_memory, served, serving
from opavnic.lab.run.daemon import lab_routes
from opavnic.lab.run.logs import LogHub
from opavnic.world import connections
from opavnic.world.connections import MAX_CONNECTIONS, MAX_FOLLOWERS, while_read

GET = b"GET /hello HTTP/1.1\r\nHost: lab\r\n\r\n"


@pytest.fixture
async def socket(tmp_path: Path) -> AsyncIterator[Path]:
    async def hello(_: web.Request) -> web.Response:
        return web.json_response({"hello": 1})

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await while_read(request, asyncio.Event().wait())
        return response

    routes = [web.get("/hello", hello), web.post("/hello", hello), web.get("/slow", slow)]
    async with serving(tmp_path / "sock", routes):
        yield tmp_path / "sock"


async def test_connections_without_a_request_keep_nobody_out_however_many_they_are(socket: Path) -> None:
    several = [await asyncio.open_unix_connection(socket) for _ in range(3 * MAX_CONNECTIONS)]
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(GET)
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 200 ")
    writer.close()
    assert await asyncio.wait_for(several[0][0].read(), 5) == b""  # the one that was silent longest
    reader, writer = several[-1]
    writer.write(GET)
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 200 ")
    for _, writer in several:
        writer.close()


async def test_request_whose_connection_is_taken_away_makes_no_traceback(
    socket: Path, caplog: pytest.LogCaptureFixture
) -> None:
    post = b"POST /hello HTTP/1.1\r\nHost: lab\r\nContent-Length: 9\r\n\r\n{"
    for _ in range(20):
        several = []
        for _ in range(2 * MAX_CONNECTIONS):
            several.append(await asyncio.open_unix_connection(socket))
            several[-1][1].write(post)
        for _, writer in several:
            writer.close()
    assert [record for record in caplog.records if record.exc_info] == []


async def test_connection_beyond_those_that_are_being_answered_is_told_so(socket: Path) -> None:
    several = [await asyncio.open_unix_connection(socket) for _ in range(MAX_CONNECTIONS)]
    for reader, writer in several:
        writer.write(GET.replace(b"hello", b"slow"))
        assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 200 ")
    reader, writer = await asyncio.open_unix_connection(socket)
    answer = await asyncio.wait_for(reader.read(), 5)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"64 requests are being answered: a lab takes no more" in answer
    writer.close()
    for _, writer in several:
        writer.close()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /hel",
        b"POST /hello HTTP/1.1\r\nHost: lab\r\nContent-Length: 9\r\n\r\n{",
        GET,
        GET + b"GET /",
    ],
)
async def test_connection_without_a_whole_request_is_closed_after_a_while(
    socket: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connections, "PATIENCE_S", 0.05)
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(said)
    answer = await asyncio.wait_for(reader.read(), 5)
    assert (b'{"hello": 1}' in answer) == said.startswith(GET)
    writer.close()


@pytest.mark.parametrize("said", [b"", GET, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")])
async def test_connection_that_has_ended_leaves_no_object_behind(socket: Path, said: bytes) -> None:
    def remaining() -> int:
        gc.collect()
        return sum(isinstance(one, RequestHandler) for one in gc.get_objects())

    before = remaining()
    for _ in range(20):
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(said)
        if said:
            assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await writer.wait_closed()
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(GET)
    await asyncio.wait_for(reader.readline(), 5)  # the server has seen before that the others ended
    assert remaining() - before <= 1
    writer.close()


@pytest.mark.usefixtures("own_runtime")
async def test_captures_and_readers_of_the_log_beyond_the_limit_are_told_so_until_one_leaves(
    tmp_path: Path,
) -> None:
    text = "name: full\nhosts: {h1: {}, h2: {}}\nvesws: [{id: 2, name: blue, members: [h1, h2]}]\n"

    async def down() -> dict[str, int]:
        return {}

    async with lab_in_memory(text) as lab:
        hub = LogHub(tmp_path / "log")
        async with served(lab_routes(lab, hub, down), tmp_path, limit=0) as http:
            for path, said in (
                ("/capture", "16 captures are running"),
                ("/logs?follow=1", "16 readers follow the log"),
            ):
                there = [await http.get(path) for _ in range(MAX_FOLLOWERS)]
                assert [response.status for response in there] == [200] * MAX_FOLLOWERS
                async with http.get(path) as refused:
                    assert (refused.status, (await refused.json())["error"][: len(said)]) == (503, said)
                there.pop().close()
                async with asyncio.timeout(30):
                    while (
                        response := await http.get(path)
                    ).status == 503:  # until the lab has seen that one left
                        response.release()
                        await asyncio.sleep(0)
                for one in (response, *there):
                    one.close()
        hub.end_followers()
        hub.close()
