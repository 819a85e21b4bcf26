"""A program on a host of another machine of the cluster: its terminal, or its pipes, are those of this process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import HfiSimError
from opavnic.cli.base.output import EXIT_FAILED, say
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.run.programs import FRAME, NUMBER_HEADER, Frame

_PIECE: Final = 64 << 10
_ANSWER_S: Final = 60.0
_INPUT_S: Final = 1e8
"""How long input may wait: a program may read nothing for days, and the rest of it then."""


def run_remotely(socket: Path, host: str, command: list[str], umad: bool | None) -> int:
    """Run a program to its end; return its exit code.

    With a terminal on both sides it gets one, of the same size. Ctrl-C goes to the program then; without a terminal it
    ends this process, and the program is hung up on.
    """
    client = LabClient(socket, _ANSWER_S)
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    terminal = {**_size(), "term": os.environ.get("TERM", "dumb")} if has_terminal else None
    body = {"host": host, "command": command, "umad": umad, "terminal": terminal}
    output = client.open("/programs", body)
    number = int(output.headers[NUMBER_HEADER])
    with _raw() if has_terminal else contextlib.nullcontext():
        if has_terminal:
            signal.signal(signal.SIGWINCH, lambda *_: _tell_size(client, number))
        threading.Thread(
            target=_give, args=(LabClient(socket, _INPUT_S), number), name="input", daemon=True
        ).start()
        code = _show(output)
    if code is None:
        say(f"host {host}: the connection to its machine has ended")
        return EXIT_FAILED
    return code


def _show(output: HTTPResponse) -> int | None:
    """Write the output of the program to stdout and stderr; return its exit code, or None if contact to it was lost.

    What of a frame has come before the stream broke off is not used: the first digit of an exit code is not the code.
    """
    while len(head := _exactly(output, FRAME.size)) == FRAME.size:
        kind, size = FRAME.unpack(head)
        data = _exactly(output, size)
        if len(data) < size:
            break
        match kind:
            case Frame.OUT | Frame.ERR:
                _write(1 if kind == Frame.OUT else 2, data)
            case Frame.EXIT:
                return int(data)
    return None


def _exactly(output: HTTPResponse, size: int) -> bytes:
    """Return the next `size` bytes, or fewer if the stream ends or breaks off before."""
    data = b""
    with contextlib.suppress(OSError, HTTPException):
        while len(data) < size and (piece := output.read(size - len(data))):
            data += piece
    return data


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _give(client: LabClient, number: int) -> None:
    """Pass on what is typed or piped in, until its end."""
    with contextlib.suppress(OSError, HfiSimError):  # the program has ended
        client.send(f"/programs/input?number={number}", iter(lambda: os.read(0, _PIECE), b""))


def _tell_size(client: LabClient, number: int) -> None:
    with contextlib.suppress(HfiSimError):
        client.post("/programs/size", {"number": number, **_size()})


def _size() -> dict[str, int]:
    columns, rows = os.get_terminal_size(1)
    return {"rows": rows, "columns": columns}


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Leave every key to the terminal at the other end."""
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is the program's
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
