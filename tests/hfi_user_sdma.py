"""A program for a kernel with Linux's own hfi1: sends a packet of its own by user SDMA, without a page of the device.

`python hfi_user_sdma.py DLID SLID PKEY`: says `sent`, or why the driver has refused it.
Source: include/uapi/rdma/hfi of Linux; user_sdma.c hfi1_user_sdma_process_request.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from typing import Final

ASSIGN_CONTEXT: Final = 3 << 30 | 28 << 16 | 0x1B << 8 | 0xE1
USER_VERSION: Final = 6 << 16 | 3
EAGER: Final = 1
KDETH_OPCODE: Final = 0xC0
KDETH_QP: Final = 0x800000
WORDS: Final = 16
"""Of the header with its PBC."""


def header(dlid: int, slid: int, pkey: int) -> bytes:
    """Build PBC, LRH, BTH and KDETH of a packet without data."""
    pbc = struct.pack("<Q", WORDS)
    lrh = struct.pack(">4H", 2, dlid, WORDS - 1, slid)
    bth = struct.pack(">3I", KDETH_OPCODE << 24 | pkey, KDETH_QP, 0)
    return pbc + lrh + bth + struct.pack("<IHH7I", 1 << 30, 0, 0, *[0] * 7)


def send(dlid: int, slid: int, pkey: int) -> str:
    """Get a context, send one packet, and return what came of it."""
    device = os.open("/dev/hfi1_0", os.O_RDWR)
    fcntl.ioctl(device, ASSIGN_CONTEXT, struct.pack("=IIHH16s", USER_VERSION, 0, 0, 0, os.urandom(16)))
    request = struct.pack("=4H", EAGER << 4 | 1 << 8, 1, 64, 0)
    try:
        os.writev(device, [request + header(dlid, slid, pkey)])
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "sent"


if __name__ == "__main__":
    print(send(*(int(word, 0) for word in sys.argv[1:4])))
