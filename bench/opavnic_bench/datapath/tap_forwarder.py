"""The bare forwarder of `opavnic bench datapath`: frames between two TAPs, nothing else.

It reads a frame and writes it to the other TAP, without offloads, batching or encapsulation. It is the `relay` of the
native module (Rust) if that is built, the same loop in Python otherwise.

Usage: python -m opavnic_bench.datapath.tap_forwarder NETNS_A NETNS_B MTU
"""

from __future__ import annotations

import os
import select
import signal
import sys

from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.tun import open_tap
from opavnic.datapath.selection import load_native
from opavnic.lab.ownership.namespaces import NETNS_DIR

_FRAME: int = 16 << 10


def relay_in_python(a: int, b: int, stop: int) -> None:
    """Forward between two descriptors until `stop` is readable."""
    others = {a: b, b: a}
    poller = select.poll()
    for fd in (a, b, stop):
        poller.register(fd, select.POLLIN)
    while True:
        for fd, _event in poller.poll():
            if fd == stop:
                return
            _drain(fd, others[fd])


def _drain(source: int, target: int) -> None:
    while True:
        try:
            frame = os.read(source, _FRAME)
        except BlockingIOError:
            return
        try:
            os.write(target, frame)
        except OSError:
            continue  # the device is down: the frame is lost, as on a cable


def main(arguments: list[str]) -> int:
    """Make a TAP `eth0` in each namespace and forward until SIGTERM."""
    taps = [run_in_namespace(NETNS_DIR / name, lambda: open_tap("eth0")) for name in arguments[:2]]
    stop, ring = os.pipe()
    signal.signal(signal.SIGTERM, lambda _number, _frame: os.write(ring, b"x") and None)
    native = load_native()
    print("native" if native is not None else "python", flush=True)  # noqa: T201 - tells the bench it is ready
    relay = native.relay if native is not None else relay_in_python
    signal.set_wakeup_fd(_not_blocking(ring))
    relay(taps[0], taps[1], stop)
    return 0


def _not_blocking(fd: int) -> int:
    os.set_blocking(fd, False)
    return fd


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
