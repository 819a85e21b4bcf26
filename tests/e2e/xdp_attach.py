"""Let an XDP program that passes every frame look at an interface until the input ends. Usage: xdp_attach.py NAME"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

from pyroute2 import IPRoute

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}[platform.machine()]
BPF_PROG_LOAD, BPF_PROG_TYPE_XDP, XDP_PASS = 5, 6, 2
BPF_MOV64_IMM, BPF_EXIT = 0xB7, 0x95
ATTR_BYTES = 128


def load() -> int:
    """Return the descriptor of a program of two instructions: r0 = XDP_PASS; exit."""
    code = struct.pack("<BBhiBBhi", BPF_MOV64_IMM, 0, 0, XDP_PASS, BPF_EXIT, 0, 0, 0)
    program, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    attr = struct.pack("=IIQQ", BPF_PROG_TYPE_XDP, 2, ctypes.addressof(program), ctypes.addressof(licence))
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(BPF_SYSCALL, BPF_PROG_LOAD, ctypes.create_string_buffer(attr, ATTR_BYTES), ATTR_BYTES)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(fd)


def main(interface: str) -> None:
    with IPRoute() as links:
        (index,) = links.link_lookup(ifname=interface)
        links.link("set", index=index, xdp={"attrs": [("IFLA_XDP_FD", load())]})
        print("attached", flush=True)
        sys.stdin.read()
        links.link("set", index=index, xdp={"attrs": [("IFLA_XDP_FD", -1)]})


if __name__ == "__main__":
    main(sys.argv[1])
