"""Peers of the control API that send no HTTP, or leave early: refused or forgotten, and no traceback is logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from lab_in_memory import serving


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Path]:
    async def leave(_: web.Request) -> web.StreamResponse:
        raise ConnectionResetError("Connection lost")  # what a write says once the reader has gone

    async def broken(_: web.Request) -> web.StreamResponse:
        raise KeyError("a bug")

    async with serving(tmp_path / "sock", [web.get("/stream", leave), web.get("/broken", broken)]):
        yield tmp_path / "sock"


async def ask(path: Path, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(data)
    answer = await reader.read(64)
    writer.close()
    return answer


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01garbage\r\n\r\n", b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: lab\r\n\r\n"]
)
async def test_request_that_is_no_http_is_refused_without_a_traceback(
    server: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    assert b" 400 " in await ask(server, data)
    assert complaints(caplog) == []


async def test_reader_that_leaves_early_is_no_internal_error(
    server: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(server, b"GET /stream HTTP/1.1\r\nHost: lab\r\n\r\n")
    assert complaints(caplog) == []


async def test_bug_in_a_handler_is_logged_and_told(server: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert b" 500 " in await ask(server, b"GET /broken HTTP/1.1\r\nHost: lab\r\n\r\n")
    assert complaints(caplog) == ["GET /broken failed"]
