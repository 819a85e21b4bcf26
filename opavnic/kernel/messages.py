"""Messages between this process and the agent that starts programs in a kernel. Sans-IO; kernel side: source/agent.c.

Each has the number of a session (4 bytes), a kind, a zero, the length of what follows (2 bytes), and that; big-endian.
A session is one program. Session 0 is the kernel's own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct("!IBxH")
_START: Final = struct.Struct("!BxHHH")
_NUMBER: Final = struct.Struct("!I")
_SIZE: Final = struct.Struct("!HH")
BODY_MAX: Final = 0xFFFF
WINDOW: Final = 65536
"""Bytes of a program's input, or of its output, that may be under way without having been taken."""
PIECE: Final = 16384
"""Bytes of input in one message, at most."""


class AgentVerb(IntEnum):
    """What a message says."""

    START = 1
    """To the agent: start a program; see `start_message`."""
    INPUT = 2
    """To the agent: bytes for its standard input; none: no more come."""
    SIGNAL = 3
    """To the agent: send a signal (1 byte) to the program and those that it has started."""
    SIZE = 4
    """To the agent: its terminal has rows and columns (2 bytes each)."""
    TAKEN = 5
    """To the agent: bytes of output that have been taken (4 bytes)."""
    END = 6
    """To the agent: the program has no user any more; it is killed."""
    HOSTS = 7
    """To the agent: what /etc/hosts says."""
    NETLINK = 8
    """To the agent: a request of rtnetlink."""
    OUTPUT = 0x11
    """From the agent: what the program has written to its standard output, or its terminal."""
    ERRORS = 0x12
    """From the agent: what it has written to its standard error."""
    EXITED = 0x13
    """From the agent: it has ended with this status (4 bytes), as a shell says it. The last of a session."""
    FAILED = 0x14
    """From the agent: it was not started, for this errno (4 bytes). The last of a session."""
    READ = 0x15
    """From the agent: bytes of input that the program has taken (4 bytes)."""
    ROUTES = 0x16
    """From the agent: answers and news of rtnetlink."""
    LOST = 0x17
    """Not from the agent, but in its place: the kernel has ended. The last of a session."""


class AgentMessage(NamedTuple):
    """One message."""

    session: int
    kind: int
    body: bytes

    @property
    def number(self) -> int:
        """The number that it is about; 0 where it holds none."""
        return _NUMBER.unpack_from(self.body)[0] if len(self.body) >= _NUMBER.size else 0

    def build(self) -> bytes:
        """Return its bytes. Raises ValueError: the body is longer than 65535 bytes."""
        if len(self.body) > BODY_MAX:
            raise ValueError(f"{len(self.body)} bytes in a message, at most {BODY_MAX}")
        return _HEAD.pack(self.session, self.kind, len(self.body)) + self.body


@dataclass(slots=True)
class Messages:
    """Messages out of a stream of bytes."""

    _rest: bytes = b""

    def take(self, data: bytes) -> Iterator[AgentMessage]:
        """Yield the messages that are complete with these bytes."""
        self._rest += data
        while len(self._rest) >= _HEAD.size:
            session, kind, length = _HEAD.unpack_from(self._rest)
            end = _HEAD.size + length
            if len(self._rest) < end:
                return
            body, self._rest = self._rest[_HEAD.size : end], self._rest[end:]
            yield AgentMessage(session, kind, body)


def start_message(
    session: int,
    command: Sequence[str],
    *,
    directory: str = "/",
    environment: Mapping[str, str],
    terminal: tuple[int, int] | None = None,
) -> AgentMessage:
    """Return what starts a program.

    Args:    directory: the current one; / where the kernel does not find it. terminal: rows and columns of the terminal
             that it gets; None: pipes.
    Raises:  ValueError: a word with a zero byte, or too much of them: 65 527 bytes, arguments and environment together.
    """
    strings = [directory, *command, *(f"{key}={value}" for key, value in environment.items())]
    encoded = [word.encode(errors="surrogateescape") for word in strings]
    if any(b"\0" in word for word in encoded):
        raise ValueError("a zero byte in an argument or in the environment")
    rows, columns = terminal or (0, 0)
    head = _START.pack(terminal is not None, rows, columns, 1 + len(command))
    body = head + b"".join(word + b"\0" for word in encoded)
    if len(body) > BODY_MAX:
        raise ValueError(
            f"arguments and environment have {len(body) - len(head)} bytes, at most {BODY_MAX - len(head)}"
        )
    return AgentMessage(session, AgentVerb.START, body)


def number_message(session: int, kind: AgentVerb, number: int) -> AgentMessage:
    """Return a message about a number of bytes."""
    return AgentMessage(session, kind, _NUMBER.pack(number))


def size_message(session: int, rows: int, columns: int) -> AgentMessage:
    """Return what tells a program the size of its terminal."""
    return AgentMessage(session, AgentVerb.SIZE, _SIZE.pack(rows, columns))
