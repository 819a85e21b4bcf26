"""A program against libibumad, as one in C would be: it runs on a host of a lab, and prints what it finds as JSON.

libibumad.py get LID           asks the management agent at a LID for ClassPortInfo
libibumad.py set LID ATTR MODIFIER HEX    sets an attribute of the management agent at a LID
libibumad.py answer-none LID   asks where nobody answers
libibumad.py traps LID         has the agent at a LID send its traps here, says "ready", and prints the first one
libibumad.py hold              registers for traps, says "ready", and reads until something ends it
libibumad.py small-buffer SIZE serves a message with SIZE bytes of data to itself, and reads it as libopamgt does
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import struct
import sys
import time
from pathlib import Path
from typing import Any

EMA, OUI, VERSION = 0x34, 0x66A, 0x80
GET, SET, TRAP = 1, 2, 5
SYS = Path("/sys/class/infiniband/hfi1_0/ports/1")


class RegAttr(ctypes.Structure):
    """struct umad_reg_attr"""

    _fields_ = (
        ("mgmt_class", ctypes.c_uint8),
        ("mgmt_class_version", ctypes.c_uint8),
        ("flags", ctypes.c_uint32),
        ("method_mask", ctypes.c_uint64 * 2),
        ("oui", ctypes.c_uint32),
        ("rmpp_version", ctypes.c_uint8),
    )


class Umad:
    """An open port with one agent."""

    def __init__(self, mgmt_class: int = EMA, methods: tuple[int, ...] = (), rmpp: int = 0) -> None:
        self.lib = ctypes.CDLL("libibumad.so.3", use_errno=True)
        self.lib.umad_get_mad.restype = ctypes.c_void_p
        self.lib.umad_get_mad_addr.restype = ctypes.c_void_p
        if self.lib.umad_init() < 0:
            raise SystemExit("umad_init")
        self.port = self.lib.umad_open_port(b"hfi1_0", 1)
        if self.port < 0:
            raise SystemExit(f"umad_open_port: {os.strerror(-self.port)}")
        mask = (ctypes.c_uint64 * 2)(sum(1 << method for method in methods), 0)
        asked = RegAttr(mgmt_class, VERSION, 0, mask, OUI if mgmt_class == EMA else 0, rmpp)
        self.agent = ctypes.c_uint32()
        failed = self.lib.umad_register2(self.port, ctypes.byref(asked), ctypes.byref(self.agent))
        if failed:
            raise SystemExit(f"umad_register2: {os.strerror(failed)}")
        self.size = self.lib.umad_size()
        keys = [int((SYS / f"pkeys/{index}").read_text(), 16) for index in range(32)]
        self.pkey_index = keys.index(0xFFFF) if 0xFFFF in keys else 0

    def send(self, lid: int, mad: bytes, timeout_ms: int = 2000, retries: int = 2) -> None:
        buffer = ctypes.create_string_buffer(self.size + max(len(mad), 2048))
        self.lib.umad_set_addr(buffer, lid, 1, 0, 0x80010000)
        self.lib.umad_set_pkey(buffer, self.pkey_index)
        ctypes.memmove(self.lib.umad_get_mad(buffer), mad, len(mad))
        if self.lib.umad_send(self.port, self.agent.value, buffer, len(mad), timeout_ms, retries) < 0:
            raise SystemExit(f"umad_send: {os.strerror(ctypes.get_errno())}")

    def receive(self, length: int = 2048, timeout_ms: int = -1) -> dict[str, Any]:
        """Return what umad_recv makes of the next message."""
        buffer = ctypes.create_string_buffer(self.size + length)
        room = ctypes.c_int(length)
        agent = self.lib.umad_recv(self.port, buffer, ctypes.byref(room), timeout_ms)
        mad = ctypes.string_at(self.lib.umad_get_mad(buffer), length)
        lid = struct.unpack_from(">H", buffer.raw, 28)[0]
        return {
            "agent": agent,
            "status": self.lib.umad_status(buffer),
            "length": room.value,
            "lid": lid,
            "mad": mad.hex(),
        }


def ema(method: int, attribute: int, data: bytes = b"", modifier: int = 0) -> bytes:
    head = struct.pack(">4BHHQHHI", 0x80, EMA, VERSION, method, 0, 0, 7, attribute, 0, modifier)
    return (head + bytes(13) + OUI.to_bytes(3, "big") + data).ljust(2048, b"\0")


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def small_buffer(size: int) -> None:
    """Ask oneself for a table; both ends leave RMPP to the kernel."""
    server, client = Umad(3, (0x12,), rmpp=1), Umad(3, rmpp=1)
    own = int((SYS / "lid").read_text(), 16)
    asked = struct.pack(">4BHHQHHI", 0x80, 3, VERSION, 0x12, 0, 0, 5, 0x11, 0, 0).ljust(2048, b"\0")
    client.send(own, asked)
    tid = bytes.fromhex(server.receive()["mad"])[8:16]
    rmpp = struct.pack(">4B2I", 1, 1, 1, 0, 0, 0)
    table = struct.pack(">4BHH", 0x80, 3, VERSION, 0x92, 0, 0) + tid + struct.pack(">HHI", 0x11, 0, 0) + rmpp
    data = random.Random(size).randbytes(size)
    server.send(own, table + bytes(20) + data, timeout_ms=0)
    first = client.receive(2048)
    why = errno.errorcode[ctypes.get_errno()]
    whole = client.receive(first["length"])
    say(
        first=first["agent"],
        errno=why,
        length=first["length"],
        start=first["mad"][:112] == whole["mad"][:112],
        data=bytes.fromhex(whole["mad"])[56 : 56 + size] == data,
    )


def main() -> None:
    word, *rest = sys.argv[1:]
    if word == "small-buffer":
        small_buffer(int(rest[0]))
        return
    umad = Umad(methods=(TRAP,) if word in ("traps", "hold") else ())
    if word == "hold":
        say(ready=True)
        say(**{**umad.receive(), "errno": errno.errorcode[ctypes.get_errno()]})
        return
    lid = int(rest[0], 0)
    if word == "answer-none":
        started = time.monotonic()
        umad.send(lid, ema(GET, 1), timeout_ms=50, retries=1)
        say(**umad.receive(), seconds=time.monotonic() - started)
        return
    if word == "set":
        attribute, modifier, data = int(rest[1], 0), int(rest[2], 0), bytes.fromhex(rest[3])
        umad.send(lid, ema(SET, attribute, data, modifier))
        say(**umad.receive())
        return
    umad.send(lid, ema(GET, 1))
    answer = umad.receive()
    if word == "get":
        say(**answer)
        return
    info = bytearray(bytes.fromhex(answer["mad"])[40:])
    info[int(rest[1]) : int(rest[1]) + 4] = int((SYS / "lid").read_text(), 16).to_bytes(4, "big")
    umad.send(lid, ema(SET, 1, bytes(info)))
    say(ready=umad.receive()["mad"][8:12])
    say(**umad.receive())


main()
