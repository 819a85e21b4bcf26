"""A program that makes random calls of /dev/infiniband/umad0 and prints what each did: python umad_calls.py SEED COUNT.

The same seed makes the same calls, so what two devices do can be compared line by line. Numbers that a device chooses
(upper halves of transaction ids) are left out.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import select
import struct
import sys
from pathlib import Path
from typing import Any

DEVICE = "/dev/infiniband/umad0"
ENABLE_PKEY, REGISTER, REGISTER2, UNREGISTER = 0x1B03, 0xC01C1B01, 0xC0281B04, 0x40041B02
ABSENT_LID = 0x2FFF
WAIT_MS = 20000
SHORT_MS = 30
"""The timeout of a request to a LID that no port has."""
LONG_MS = 3000
"""The timeout of one to the own port, which answers even if the machine is busy."""
CLASSES = (0, 0x01, 0x03, 0x07, 0x09, 0x10, 0x30, 0x34, 0x34, 0x34, 0x4E, 0x4F, 0x50, 0x81)
VERSIONS = (0, 1, 2, 0x80, 0x80, 0x80, 0x82, 0x83, 0xFF)
WEIGHTS = {
    "open": 2, "close": 1, "enable": 2, "register": 6, "register2": 14, "unregister": 4, "unknown": 1, "read": 6,
    "write": 10, "ask": 10, "poll": 4,
}  # fmt: skip
METHODS = ((), (3,), (5,), (6,), (1, 2), (5, 6, 7), (0x12,), (0x7F,))


class Calls:
    """The open files, and the calls."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.files: list[int] = []
        self.pkey: dict[int, bool] = {}
        self.used: dict[int, bool] = {}
        self.tid = 0
        port = next(Path("/sys/class/infiniband").glob("*/ports/1"))
        self.lid = int((port / "lid").read_text(), 16)
        table = [int((port / "pkeys" / str(n)).read_text(), 16) for n in range(3)]
        self.pkey_index = table.index(0xFFFF) if 0xFFFF in table else table.index(0x7FFF)

    def call(self) -> list[Any]:
        """Make one call; return its name, arguments and result."""
        (name,) = self.rng.choices(list(WEIGHTS), WEIGHTS.values())
        if not self.files and name != "open":
            name = "open"
        return [name, *getattr(self, name)()]

    def pick(self) -> int:
        return self.rng.choice(self.files)

    def open(self) -> list[Any]:
        if len(self.files) >= 4:
            return ["enough"]
        file = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)
        self.files.append(file)
        self.pkey[file] = self.used[file] = False
        return ["ok"]

    def close(self) -> list[Any]:
        file = self.pick()
        self.files.remove(file)
        os.close(file)
        return ["ok"]

    def ioctl(self, file: int, command: int, data: bytes) -> tuple[str, bytes]:
        argument = bytearray(data)
        try:
            fcntl.ioctl(file, command, argument, True)
        except OSError as error:
            return errno.errorcode[error.errno or 0], bytes(argument)
        return "ok", bytes(argument)

    def enable(self) -> list[Any]:
        file = self.pick()
        try:
            fcntl.ioctl(file, ENABLE_PKEY, 0)
        except OSError as error:
            return [errno.errorcode[error.errno or 0]]
        self.pkey[file] = True
        return ["ok"]

    def register(self) -> list[Any]:
        rng, file = self.rng, self.pick()
        mask = sum(1 << m for m in rng.choice(METHODS))
        qpn, class_, version, rmpp = (
            rng.choice((0, 1, 1, 1, 2)),
            rng.choice(CLASSES),
            rng.choice(VERSIONS),
            rng.choice((0, 0, 0, 1, 2)),
        )
        oui = rng.choice((b"\0\0\0", b"\0\x06\x6a", b"\0\x06\x6a", b"\x02\x4f\x56"))
        words = [mask >> 32 * n & 0xFFFFFFFF for n in range(4)]
        said, found = self.ioctl(
            file, REGISTER, struct.pack("=5I3B3sBx", 99, *words, qpn, class_, version, oui, rmpp)
        )
        if said == "ok":
            self.used[file] = True
        return [
            self.files.index(file),
            qpn,
            class_,
            version,
            oui.hex(),
            rmpp,
            hex(mask),
            said,
            found[:4].hex(),
        ]

    def register2(self) -> list[Any]:
        rng, file = self.rng, self.pick()
        mask = sum(1 << m for m in rng.choice(METHODS))
        qpn, class_, version, rmpp = (
            rng.choice((0, 1, 1, 1, 1, 1, 2)),
            rng.choice(CLASSES),
            rng.choice(VERSIONS),
            rng.choice((0, 0, 0, 1, 2)),
        )
        flags, oui = rng.choice((0, 0, 0, 0, 1, 2, 3)), rng.choice((0, 0x66A, 0x66A, 0x24F56, 0x100066A))
        data = struct.pack(
            "=IIBBHIQQIB3x", 99, qpn, class_, version, 0, flags, mask & (1 << 64) - 1, mask >> 64, oui, rmpp
        )
        said, found = self.ioctl(file, REGISTER2, data)
        if said == "ok":
            if not self.used[file]:
                self.pkey[file] = True
            self.used[file] = True
        return [
            self.files.index(file), qpn, class_, version, flags, hex(oui), rmpp, hex(mask), said,
            found[:4].hex(), found[12:16].hex(),
        ]  # fmt: skip

    def unregister(self) -> list[Any]:
        file, number = self.pick(), self.rng.choice((0, 0, 1, 2, 3, 31, 32, 0xFFFFFFFF))
        return [self.files.index(file), number, self.ioctl(file, UNREGISTER, struct.pack("=I", number))[0]]

    def unknown(self) -> list[Any]:
        return [self.ioctl(self.pick(), self.rng.choice((0x1B77, 0xC0281B05)), bytes(64))[0]]

    def poll(self) -> list[Any]:
        poll = select.poll()
        file = self.pick()
        poll.register(file, select.POLLIN | select.POLLOUT)
        return [self.files.index(file), sorted(bits for _, bits in poll.poll(0))]

    def read(self, file: int | None = None, size: int | None = None) -> list[Any]:
        file = self.pick() if file is None else file
        size = self.rng.choice((1, 55, 56, 63, 64, 80, 88, 300, 2111, 4096)) if size is None else size
        try:
            data = os.read(file, size)
        except OSError as error:
            return [self.files.index(file), size, errno.errorcode[error.errno or 0]]
        return [self.files.index(file), size, len(data), *self.shown(file, data)]

    def shown(self, file: int, data: bytes) -> list[Any]:
        """Return what of a message does not depend on the device: no ids that it chose, no data of agents."""
        head = 64 if self.pkey[file] else 56
        number, status, timeout, retries, length = struct.unpack_from("=5I", data)
        lid, sl, path_bits, grh = struct.unpack_from(">H3B", data, 28)
        mad = data[head:]
        where = "own" if lid == self.lid else lid
        kept = [*mad[:4], mad[4:8].hex(), mad[12:24].hex()]
        return [number, status, timeout, retries, length, where, sl, path_bits, grh, len(mad), *kept]

    def message(self, file: int) -> bytes:
        rng = self.rng
        self.tid += 1
        base = rng.choice((1, 0x80, 0x80, 0x80))
        class_ = rng.choice((0x03, 0x09, 0x34, 0x34, 0x34, 0x4E))
        method = rng.choice((1, 1, 1, 2, 0x81, 0x92))
        number = rng.choice((0, 0, 0, 0, 1, 2, 31, 32, 99))
        lid = ABSENT_LID if method & 0x80 else rng.choice((self.lid, ABSENT_LID))
        timeout, retries = rng.choice(((0, 0), (1, 0), (1, 1)))
        if timeout:
            timeout = LONG_MS if lid == self.lid else SHORT_MS
        size = rng.choice((24, 35, 36, 55, 56, 64, 200, 256, 257, 2047, 2048, 2049))
        tid = rng.choice((self.tid, self.tid, self.tid, 5))
        mad = (
            struct.pack(">4BHHQHHI", base, class_, 0x80, method, 0, 0, tid, 1, 0, 0)
            + bytes(13)
            + b"\0\x06\x6a"
        )
        head = struct.pack("=5I", number, 0, timeout, retries, 0)
        head += struct.pack(">IIH6B16sI", 1, 0x80010000, lid, 0, 0, 0, 0, 0, 0, bytes(16), 0)
        if self.pkey[file]:
            head += struct.pack("=H6x", self.pkey_index)
        return head + mad.ljust(size, b"\0")[:size]

    def write(self, message: bytes | None = None, file: int | None = None) -> list[Any]:
        file = self.pick() if file is None else file
        message = self.message(file) if message is None else message
        if self.rng.random() < 0.1:
            message = message[: self.rng.randrange(1, len(message))]
        head = 64 if self.pkey[file] else 56
        mad = message[head:]
        what = [self.files.index(file), len(message), message[:20].hex(), mad[:4].hex(), mad[12:16].hex()]
        try:
            return [*what, os.write(file, message), self.answers(file, message, head)]
        except OSError as error:
            return [*what, errno.errorcode[error.errno or 0]]

    def ask(self) -> list[Any]:
        """Ask the agent of the own port, or a LID that no port has, for ClassPortInfo."""
        file = self.pick()
        self.tid += 1
        mad = (
            struct.pack(">4BHHQHHI", 0x80, 0x34, 0x80, 1, 0, 0, self.tid, 1, 0, 0) + bytes(13) + b"\0\x06\x6a"
        )
        lid = self.rng.choice((self.lid, self.lid, ABSENT_LID))
        timeout = LONG_MS if lid == self.lid else SHORT_MS
        head = struct.pack("=5I", self.rng.choice((0, 0, 1)), 0, timeout, self.rng.choice((0, 1)), 0)
        head += struct.pack(">IIH6B16sI", 1, 0x80010000, lid, 0, 0, 0, 0, 0, 0, bytes(16), 0)
        if self.pkey[file]:
            head += struct.pack("=H6x", self.pkey_index)
        message = head + mad.ljust(2048, b"\0")
        what = [self.files.index(file), "own" if lid == self.lid else lid]
        try:
            os.write(file, message)
        except OSError as error:
            return [*what, errno.errorcode[error.errno or 0]]
        return [*what, self.answers(file, message, len(head))]

    def answers(self, file: int, message: bytes, head: int) -> list[Any]:
        """Read what comes back of a request with a timeout, so that the order does not depend on time."""
        if not struct.unpack_from("=I", message, 8)[0]:
            return []
        poll = select.poll()
        poll.register(file, select.POLLIN)
        if not poll.poll(WAIT_MS):
            return ["nothing"]
        return self.read(file, 4096)


def main(seed: int, count: int) -> None:
    """Make the calls."""
    calls = Calls(seed)
    for _ in range(count):
        print(json.dumps(calls.call()), flush=True)


main(int(sys.argv[1]), int(sys.argv[2]))
