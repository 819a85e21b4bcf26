"""The control socket of the manager: requests of its client, and of those that know no HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

from opavnic.base.errors import OpavnicError
from opavnic.lab.file.errors import LabError, LabInputError
from opavnic.lab.ownership.client import LabClient, RefusedFileError
from opavnic.manager.control_socket import MAX_BODY, HttpRequest, HttpServer, control_socket
from opavnic.state.em import EmApplied
from vema.em.desired.desired import EmConfigError
from vema.em.desired.problems import Problem


async def apply(request: HttpRequest) -> EmApplied:
    data = request.json()
    if data == "wrong":
        raise EmConfigError([Problem(("vesws", 0, "id"), "0 is no id")])
    if data == "late":
        raise OpavnicError("the manager has ended")
    if data == "bug":
        raise RuntimeError("bug")
    return EmApplied(changes=[f"{data} {request.number('n', 3)}"], sets=1, converged=True)


SERVER = {("POST", "/em/apply"): apply}


async def asked(path: Path, what: str, data: object = "x") -> EmApplied:
    return await asyncio.to_thread(LabClient(path, 5.0, whose="the manager").change, EmApplied, what, data)


async def test_client_of_labs_reads_states_and_refusals(tmp_path: Path) -> None:
    path = tmp_path / "em.sock"
    async with control_socket(path, HttpServer(SERVER)):
        assert (await asked(path, "/em/apply?n=7")).changes == ["x 7"]
        with pytest.raises(RefusedFileError) as refused:
            await asked(path, "/em/apply", "wrong")
        assert refused.value.found == (Problem(("vesws", 0, "id"), "0 is no id"),)
        with pytest.raises(LabError, match="the manager has ended"):
            await asked(path, "/em/apply", "late")
        with pytest.raises(LabError, match="internal error, RuntimeError: bug"):
            await asked(path, "/em/apply", "bug")
        with pytest.raises(LabInputError, match="n='x' is not a number"):
            await asked(path, "/em/apply?n=x")
        with pytest.raises(LabError, match="POST /em/other: not here"):
            await asked(path, "/em/other")
        assert os.stat(path).st_mode & 0o077 == 0
    assert not path.exists()
    with pytest.raises(LabError, match="the manager does not answer at"):
        await asked(path, "/em/apply")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\r\n\r\n", b"400"),
        (b"POST /em/apply HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"POST /em/apply HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1), b"400"),
        (b"POST /em/apply HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"POST /em/apply HTTP/1.1\r\nContent-Length: 3\r\n\r\n{{{", b"400"),
        (b"POST /em/apply HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100000, b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /em/apply HTTP/1.1\r\nContent-Length: 9\r\n\r\n", b""),
        (b"x" * 40000, b""),
        (b"", b""),
    ],
)
async def test_malformed_request_is_refused_and_the_socket_goes_on(
    tmp_path: Path, sent: bytes, status: bytes
) -> None:
    path = tmp_path / "em.sock"
    async with control_socket(path, HttpServer(SERVER)):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(sent)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        assert answer.split(b" ")[1:2] == ([status] if status else [])
        if status:
            assert "error" in json.loads(answer.partition(b"\r\n\r\n")[2])
        assert (await asked(path, "/em/apply")).sets == 1


async def test_socket_left_over_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "em.sock"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    async with control_socket(path, HttpServer(SERVER)):
        with pytest.raises(OpavnicError, match="another Ethernet Manager serves there"):
            async with control_socket(path, HttpServer(SERVER)):
                pass
        assert (await asked(path, "/em/apply")).sets == 1
    path.write_text("mine")
    with pytest.raises(OpavnicError, match="not a socket"):
        async with control_socket(path, HttpServer(SERVER)):
            pass
    assert path.read_text() == "mine"
