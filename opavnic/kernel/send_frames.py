"""Sends frames from the only VNIC of a kernel: a program that runs in it, with the files of this machine.

It reads frames from its standard input, each after its length (2 bytes, big-endian), and answers each with one byte: 0,
or the errno with which it was refused. A frame leaves with the address of the VNIC as its source. It goes through
SOCK_DGRAM, since opa_vnic panics on raw packet sockets.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
import time
from pathlib import Path
from typing import BinaryIO, Final

MTU: Final = 10240
_LOOPBACK: Final = "lo"
_IPOIB: Final = "ib"
_HEADER: Final = 14
_PATIENCE_S: Final = 5.0
_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_SIOCSIFMTU: Final = 0x8922
_IFF_UP: Final = 1
_IFF_RUNNING: Final = 0x40


_NO_IPV6: Final = Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")


class SendingVnic:
    """The netdev, with a packet socket."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
        _NO_IPV6.write_text("1")  # or the kernel would send frames of its own
        names = [name for _, name in socket.if_nameindex()]
        (self.name,) = [name for name in names if name != _LOOPBACK and not name.startswith(_IPOIB)]
        self._ioctl(_SIOCSIFMTU, struct.pack("i", MTU))

    def _ioctl(self, request: int, value: bytes = b"") -> bytes:
        return fcntl.ioctl(self._socket, request, struct.pack("16s24s", self.name.encode(), value))[16:]

    def send(self, frame: bytes) -> int:
        """Send a frame once the netdev runs; return 0 or an errno."""
        try:
            self._await_running()
            address = (self.name, int.from_bytes(frame[12:_HEADER]), 0, 0, frame[:6])
            self._socket.sendto(frame[_HEADER:], address)
        except OSError as error:
            return error.errno or 255
        return 0

    def _await_running(self) -> None:
        """Wait until the netdev runs; the kernel takes up its queues right after it has said so, under one lock."""
        end = time.monotonic() + _PATIENCE_S
        while True:
            (flags,) = struct.unpack_from("H", self._ioctl(_SIOCGIFFLAGS))
            self._ioctl(_SIOCSIFFLAGS, struct.pack("H", flags | _IFF_UP))
            if flags & _IFF_RUNNING or time.monotonic() > end:
                return
            os.sched_yield()


def serve(frames: BinaryIO, answers: BinaryIO) -> None:
    """Send each frame that is read, until the end."""
    vnic = SendingVnic()
    while len(head := frames.read(2)) == 2:
        answers.write(bytes([vnic.send(frames.read(int.from_bytes(head)))]))
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
