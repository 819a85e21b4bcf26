"""Where the control plane may listen, and what is said where it cannot."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ejfat.base.errors import BadRequestError, EjfatError
from ejfat.control.grpc.listening import check_listen, probe
from ejfat.control.grpc.serving import start_server


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected HOST:PORT"),
        ("foo", "expected HOST:PORT, such as 127.0.0.1:18008"),
        ("127.0.0.1", "expected HOST:PORT"),
        (":18008", "expected HOST:PORT"),
        ("::1:18008", "expected HOST:PORT"),
        ("[nowhere]:18008", "expected HOST:PORT"),
        ("127.0.0.1:99999", "port '99999', expected 0 to 65535"),
        ("127.0.0.1:-5", "port '-5', expected 0 to 65535"),
        ("127.0.0.1:", "port '', expected"),
        ("127.0.0.1:" + "9" * 5000, "expected 0 to 65535"),
        ("127.0.0.1:٣", "expected 0 to 65535"),
        ("unix:", "a path of 1 to 107 bytes, not 0"),
        ("unix:/" + "a" * 107, "a path of 1 to 107 bytes, not 108"),
    ],
)
def test_text_that_is_no_address_is_refused(text: str, expected: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        check_listen(text)
    assert expected in str(caught.value)


def test_addresses_as_they_are_written_are_taken(tmp_path: Path) -> None:
    for text in ("127.0.0.1:0", "localhost:0", "0.0.0.0:0", f"unix:{tmp_path}/s"):
        probe(text)
    check_listen("[::1]:65535")
    assert list(tmp_path.iterdir()) == []


async def test_address_that_cannot_be_bound_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    expected = {
        "192.0.2.1:5000": "cannot listen on 192.0.2.1:5000: Cannot assign requested address",
        "no-such-host.invalid:5000": "cannot listen on no-such-host.invalid:5000: ",
        f"unix:{tmp_path}/none/s": "No such file or directory",
        f"unix:{tmp_path}/file": "File exists",
    }
    for text, reason in expected.items():
        with pytest.raises(EjfatError) as caught:
            await start_server(text, lambda server: None)
        assert reason in str(caught.value)


def test_unix_socket_of_a_program_that_runs_is_left_alone(tmp_path: Path) -> None:
    path = f"{tmp_path}/s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as living:
        living.bind(path)
        living.listen()
        with pytest.raises(EjfatError, match="Address already in use"):
            probe(f"unix:{path}")
    probe(f"unix:{path}")  # nobody is behind it any more


def test_port_that_is_taken_says_so_and_grpc_says_nothing() -> None:
    program = "import asyncio, sys; from ejfat.control.grpc.serving import start_server; "
    program += "asyncio.run(start_server(sys.argv[1], lambda server: None))"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-c", program, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines()[-1].endswith(f"cannot listen on {address}: Address already in use")
    assert "Failed to add port" not in done.stderr
