"""A program that treats its umad device badly, on a host of a lab: umad_abuse.py LID-OF-AN-AGENT; prints JSON."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import struct
import sys
import threading
from typing import Any

ENABLE_PKEY, REGISTER_AGENT2, UNREGISTER_AGENT = 0x1B03, 0xC0281B04, 0x40041B02
NOWHERE = 0x4444
FLOOD = 9000
"""More than the device lets wait for their responses."""
REST = "import os, sys; sys.stdout.buffer.write(os.read(int(sys.argv[1]), 4096)[67:68])"
"""Prints the method of the MAD that can be read from a descriptor."""

lid = int(sys.argv[1])
tids = iter(range(1, 1 << 30))
found: dict[str, Any] = {}


def register(fd: int) -> int:
    asked = struct.pack("<2I2BHI2QIB3x", 0, 1, 0x34, 0x80, 0, 0, 0, 0, 0x66A, 0)
    return int(struct.unpack_from("<I", fcntl.ioctl(fd, REGISTER_AGENT2, asked))[0])


def opened(flags: int = 0) -> int:
    """Return a descriptor with agent 0."""
    fd = os.open("/dev/infiniband/umad0", os.O_RDWR | flags)
    fcntl.ioctl(fd, ENABLE_PKEY)
    register(fd)
    return fd


def send(fd: int, to: int = lid, timeout_ms: int = 5000) -> None:
    """Ask the agent at a LID for its ClassPortInfo."""
    mad = (
        struct.pack(">4BHHQHHI", 0x80, 0x34, 0x80, 1, 0, 0, next(tids), 1, 0, 0) + bytes(13) + b"\x00\x06\x6a"
    )
    address = struct.pack(">IIH6B16sI", 1, 0x80010000, to, 0, 0, 0, 0, 0, 0, bytes(16), 0)
    head = struct.pack("<5I", 0, 0, timeout_ms, 0, 0)
    os.write(fd, head + address + struct.pack("<H6x", pkey_index) + mad.ljust(2048, b"\0"))


def refusal(call: Any, *arguments: Any) -> str:
    """Return the name of the error of a call; empty: there was none."""
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


def method(message: bytes) -> int:
    return message[67]


def too_small() -> list[object]:
    fd = opened()
    send(fd)
    select.select([fd], [], [])
    return [refusal(os.read, fd, 10), refusal(os.read, fd, 100), method(os.read(fd, 4096))]


def many_agents() -> list[object]:
    fd = opened()
    numbers = [register(fd) for _ in range(31)]
    return [numbers == list(range(1, 32)), refusal(register, fd), refusal(fcntl.ioctl, fd, 0x1B77)]


def nowhere() -> int:
    fd = opened()
    send(fd, NOWHERE, timeout_ms=20)
    return int(struct.unpack_from("<I", os.read(fd, 4096), 4)[0])


def flood() -> str:
    fd = opened()
    for _ in range(FLOOD):
        if refused := refusal(send, fd, NOWHERE, 60_000):
            return refused
    return ""


def forked() -> int:
    """The child goes on with a device that the parent has closed."""
    fd = opened()
    if child := os.fork():
        os.close(fd)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    send(fd)
    os._exit(method(os.read(fd, 4096)))


def replaced() -> str:
    """Another program, started by exec, reads what this one has asked for."""
    fd = opened()
    os.set_inheritable(fd, True)
    send(fd)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.dup2(writing, 1)
        os.execv(sys.executable, [sys.executable, "-c", REST, str(fd)])  # noqa: S606 - the very thing
    os.close(writing)
    os.wait()
    return os.read(reading, 16).hex()


def closed_while_waiting() -> int:
    fd = opened()
    other = os.dup(fd)
    answers: list[bytes] = []
    thread = threading.Thread(target=lambda: answers.append(os.read(fd, 4096)))
    thread.start()
    wait_for_read(thread)
    os.close(fd)
    send(other)
    thread.join()
    return method(answers[0])


def wait_for_read(thread: threading.Thread) -> None:
    """Return once a thread is in read(2)."""
    while True:
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread.native_id}/syscall") as file:
            if file.read().split()[0] in ("0", "63"):
                return


def interrupted() -> str:
    fd = opened()

    def give_up(*_: object) -> None:
        raise InterruptedError(errno.EINTR, "a signal")

    def read() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05)  # here, where it may come at any time
        os.read(fd, 4096)

    signal.signal(signal.SIGALRM, give_up)
    return refusal(read)


def at_once() -> list[object]:
    fd = opened(os.O_NONBLOCK)
    return [refusal(os.read, fd, 4096), select.select([fd], [], [], 0)[0]]


def entries() -> list[int]:
    base = "/sys/class/infiniband/hfi1_0/ports/1/pkeys"
    return [int(open(f"{base}/{index}").read(), 16) for index in range(32)]


pkey_index = entries().index(0xFFFF)
for case in (
    too_small,
    many_agents,
    nowhere,
    forked,
    replaced,
    closed_while_waiting,
    interrupted,
    at_once,
    flood,
):
    found[case.__name__] = case()
print(json.dumps(found))
