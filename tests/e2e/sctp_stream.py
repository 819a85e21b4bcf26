"""A message stream over SCTP, by the userland stack libusrsctp, which checks the CRC32c of each packet.

Usage: sctp_stream.py receive ADDRESS | send ADDRESS SIZE

`receive` prints "listening", the SHA-256 of what came up to the peer's close, and ends with its input. Both use port
5006.
"""

from __future__ import annotations

import ctypes
import hashlib
import socket
import struct
import sys
import time

PORT = 5006
_LIBRARY = "libusrsctp.so.2"
_PIECE = 16384


def data(size: int) -> bytes:
    return b"".join(struct.pack("!I", number * 2654435761 % 2**32) for number in range(size // 4))


def sctp() -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """Return the library and a socket of it. Raises OSError: it is not installed."""
    library = ctypes.CDLL(_LIBRARY)
    for function in ("usrsctp_socket", "usrsctp_accept"):
        getattr(library, function).restype = ctypes.c_void_p
    library.usrsctp_sendv.restype = library.usrsctp_recvv.restype = ctypes.c_ssize_t
    library.usrsctp_init(0, None, None)
    made = library.usrsctp_socket(
        socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP, None, None, 0, None
    )
    return library, ctypes.c_void_p(made)


def address(text: str) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", PORT, socket.inet_aton(text))


def receive(at: str) -> None:
    library, listener = sctp()
    here = address(at)
    assert library.usrsctp_bind(listener, here, len(here)) == 0
    assert library.usrsctp_listen(listener, 1) == 0
    print("listening", flush=True)
    peer = ctypes.c_void_p(library.usrsctp_accept(listener, None, None))
    found, buffer = hashlib.sha256(), ctypes.create_string_buffer(_PIECE)
    length, flags = (ctypes.c_uint(0) for _ in range(2))
    while got := library.usrsctp_recvv(
        peer, buffer, ctypes.c_size_t(_PIECE), None, None, None, ctypes.byref(length), ctypes.byref(length),
        ctypes.byref(flags),
    ):  # fmt: skip
        assert got > 0, got
        found.update(buffer.raw[:got])
    print(found.hexdigest(), flush=True)
    sys.stdin.read()  # the stack of this process answers the peer's close: it stays until the peer has ended


def send(to: str, size: str) -> None:
    library, sock = sctp()
    there = address(to)
    assert library.usrsctp_connect(sock, there, len(there)) == 0
    whole = data(int(size))
    for at in range(0, len(whole), _PIECE):
        piece = whole[at : at + _PIECE]
        assert library.usrsctp_sendv(sock, piece, ctypes.c_size_t(len(piece)), None, 0, None, 0, 0, 0) > 0
    library.usrsctp_close(sock)
    # until the association has ended, all of it delivered; no call waits for that
    while library.usrsctp_finish():
        time.sleep(0.01)


if __name__ == "__main__":
    {"receive": receive, "send": send}[sys.argv[1]](*sys.argv[2:])
