"""One program on many hosts at once, its output behind the name of each."""

from __future__ import annotations

import os
import selectors
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from opavnic.base.null_device_file import open_null

_AT_ONCE: Final = 64
"""Programs that run at the same time."""
_PIECE: Final = 64 << 10
_SIGNALLED: Final = 128
"""Added to the number of the signal that has ended a program, as a shell does."""


@dataclass(slots=True)
class _Stream:
    """What the program of one host writes to one of its streams."""

    host: str
    target: int
    """Descriptor of this process that gets it."""
    rest: bytes = b""
    """The beginning of a line."""

    def take(self, data: bytes) -> None:
        """Write whole lines, each behind the name of the host; the last one at the end, `data` being empty then."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        if not data and self.rest:
            lines.append(self.rest)
        text = b"".join(b"%s: %s\n" % (self.host.encode(), line) for line in lines)
        while text:
            text = text[os.write(self.target, text) :]


def one_process_each(hosts: Sequence[str]) -> str | int:
    """Return in a new process for each host, with its name; in this process return once all have ended.

    Each of them has an empty standard input, and what it writes appears line by line behind the name of its host. This
    process gets the largest of their exit codes.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    waiting = deque(hosts)
    running: dict[str, tuple[int, int]] = {}
    """By host, the process and how many of its streams are open."""
    largest = 0
    with selectors.DefaultSelector() as selector:
        while waiting or running:
            while waiting and len(running) < _AT_ONCE:
                host = waiting.popleft()
                pid = _start(host, selector)
                if pid == 0:
                    return host
                running[host] = pid, 2
            for key, _ in selector.select():
                stream: _Stream = key.data
                data = os.read(key.fd, _PIECE)
                stream.take(data)
                if data:
                    continue
                selector.unregister(key.fd)
                os.close(key.fd)
                pid, streams = running.pop(stream.host)
                if streams > 1:
                    running[stream.host] = pid, streams - 1
                else:
                    largest = max(largest, _exit_code(pid))
    return largest


def _start(host: str, selector: selectors.BaseSelector) -> int:
    """Return 0 in a new process whose output this one reads, and its number in this one."""
    pipes = [os.pipe(), os.pipe()]
    empty = open_null(os.O_RDONLY)
    pid = os.fork()
    if pid == 0:
        for number, fd in enumerate((empty, pipes[0][1], pipes[1][1])):
            os.dup2(fd, number)
        return 0
    os.close(empty)
    for target, (reading, writing) in enumerate(pipes, start=1):
        os.close(writing)
        selector.register(reading, selectors.EVENT_READ, _Stream(host, target))
    return pid


def _exit_code(pid: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else _SIGNALLED - code
