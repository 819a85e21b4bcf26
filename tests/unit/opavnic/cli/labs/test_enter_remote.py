"""What a program on another machine says, when its stream comes in pieces or breaks off."""

from __future__ import annotations

import io
import random
from http.client import HTTPResponse, IncompleteRead
from typing import cast
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from opavnic.cli.labs import enter_remote
from opavnic.lab.run.programs import FRAME, Frame


class Stream(io.BytesIO):
    """An answer over HTTP that comes in pieces and may break off."""

    def __init__(self, data: bytes, chance: random.Random, *, breaks: bool) -> None:
        super().__init__(data)
        self._chance, self._breaks = chance, breaks

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(self._chance.randint(1, size or 1))
        if not data and self._breaks:
            raise IncompleteRead(b"")
        return data


@given(seed=st.integers(0, 1 << 32))
def test_output_and_exit_code_are_those_of_the_program_or_none(seed: int) -> None:
    chance = random.Random(seed)
    code = chance.randrange(256)
    said: list[tuple[int, bytes]] = []
    data = b""
    for _ in range(chance.randrange(5)):
        fd, text = chance.choice((1, 2)), chance.randbytes(chance.randrange(30))
        said.append((fd, text))
        data += FRAME.pack(Frame.OUT if fd == 1 else Frame.ERR, len(text)) + text
    data += FRAME.pack(Frame.EXIT, len(str(code))) + str(code).encode()
    end = chance.randrange(len(data) + 1)
    stream = Stream(data[:end], chance, breaks=chance.random() < 0.5)
    written: list[tuple[int, bytes]] = []
    with patch.object(enter_remote, "_write", lambda fd, text: written.append((fd, text))):
        found = enter_remote._show(cast(HTTPResponse, stream))
    assert found == (code if end == len(data) else None)
    assert written == said[: len(written)]
