"""The side of the program that enters a host: it mounts the devices of the host and hands the mount to the lab."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any, Final

from opavnic.devices.kernel import mounts, seccomp
from opavnic.devices.kernel.entry import FUSE_DEVICE, MAX_MESSAGE, EntryError, send_arrival, why_no_fuse

PATIENCE_S: Final = 10.0
"""Seconds that the lab may take to answer; then the program starts without devices."""


def enter_devices(socket_path: Path, host: str) -> None:
    """Let this process, and those that it starts, find the devices of a host of the lab that listens at a socket.

    It must be alone in its mount namespace, with mounts that do not propagate.

    Raises:  EntryError: they cannot; nothing has changed but, maybe, a filter that lets all system calls pass.
    """
    if not socket_path.exists():
        raise EntryError("the lab has none to give")
    if reason := why_no_fuse():
        raise EntryError(reason)
    try:
        with contextlib.ExitStack() as ends:
            _mount_and_show(socket_path, host, ends)
    except TimeoutError as error:
        raise EntryError("the lab does not answer") from error
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise EntryError(str(error)) from error


def _mount_and_show(socket_path: Path, host: str, ends: contextlib.ExitStack) -> None:
    machine_dev = ends.enter_context(mounts.opened(mounts.DEV))
    machine_class = ends.enter_context(mounts.opened(mounts.SYS_CLASS))
    fuse_fd = os.open(FUSE_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    ends.callback(os.close, fuse_fd)
    mounts.mount_fuse(fuse_fd, mounts.SYS_CLASS)
    layers = 1
    try:
        device = mounts.device_at(mounts.SYS_CLASS)
        told = _ask(socket_path, host, device, fuse_fd, _listener(ends))
        served = ends.enter_context(mounts.opened(mounts.SYS_CLASS))
        classes = {name: f"{served}/{name}" for name in told["classes"]}
        mounts.show(mounts.SYS_CLASS, machine_class, classes)
        layers = 2
        mounts.show(mounts.DEV, machine_dev, {mounts.DEV_NAME: f"{served}/{told['dev']}"})
    except BaseException:
        with contextlib.suppress(OSError):
            for _ in range(layers):
                mounts.unmount(mounts.SYS_CLASS)
        raise


def _ask(socket_path: Path, host: str, device: int, fuse_fd: int, listener: int | None) -> Any:
    """Return what the lab says to a program that wants devices. Raises EntryError, OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as lab:
        lab.settimeout(PATIENCE_S)
        lab.connect(str(socket_path))
        send_arrival(lab, host, device, fuse_fd, listener)
        told = json.loads(lab.recv(MAX_MESSAGE) or b'{"error": "the lab has hung up"}')
    if "error" in told:
        raise EntryError(told["error"])
    return told


def _listener(ends: contextlib.ExitStack) -> int | None:
    """Filter the system calls of this process; None if it may not, or one above it has done so for a lab already."""
    try:
        listener = seccomp.listen()
    except OSError:
        return None
    ends.callback(os.close, listener)
    return listener
