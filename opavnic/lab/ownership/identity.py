"""The identity of a lab's network namespaces. An inode is not enough: Linux reuses it for the next namespace.

A namespace is identified by its cookie, a number that the kernel assigns only once per boot. Kernels before 5.14 have
no cookies; there the loopback of each namespace of a lab gets a random word as its alias. A journal records the boot
that its marks belong to.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import CLONE_NEWNET, CLONE_NEWUSER, Libc, run_in_thread
from opavnic.lab.file.errors import LabError

_SO_NETNS_COOKIE: Final = 71
_NS_GET_USERNS: Final = 0xB701
_NS_GET_NSTYPE: Final = 0xB703
_THREAD_NET: Final = "/proc/thread-self/ns/net"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_COOKIE: Final = struct.Struct("=Q")
_ALIAS: Final = "opavnic netns "
_LOOPBACK: Final = 1
_ENOUGH: Final = 256


def boot_id() -> str:
    """Return the id of this boot of the machine.

    Raises:  LabError: the kernel does not provide it.
    """
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError as error:
        raise LabError(f"cannot tell this boot from others: {_BOOT_ID}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class NamespaceId:
    """Identifies one network namespace of this boot."""

    inode: int
    """Narrows a search down; it proves nothing."""
    mark: str
    """`cookie NUMBER`, or `alias WORD` on a kernel without cookies."""


def sign_namespace() -> NamespaceId:
    """Return the identity of the namespace that this thread has just created.

    Raises:  OSError, NetdevError: it cannot be marked.
    """
    mark = _cookie()
    if mark is None:
        from hfi_sim.netdev.link_client import LinkClient  # late: not all commands need it

        word = os.urandom(16).hex()
        links = LinkClient()
        try:
            links.set_alias(_LOOPBACK, _ALIAS + word)
        finally:
            links.close()
        mark = f"alias {word}"
    return NamespaceId(os.stat(_THREAD_NET).st_ino, mark)


def current_namespace() -> NamespaceId:
    """Return the identity of this thread's namespace; without cookies, its mark is empty if no lab created it."""
    return NamespaceId(os.stat(_THREAD_NET).st_ino, _cookie() or _loopback_mark())


def namespace_at(path: str | os.PathLike[str]) -> NamespaceId | None:
    """Return the identity of the namespace that a file such as /run/netns/NAME or /proc/PID/ns/net refers to.

    None if it refers to none. If this process may not enter the namespace, its mark is empty and proves nothing.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if status.st_dev != os.stat("/proc/self/ns/net").st_dev:
            return None
        if fcntl.ioctl(fd, _NS_GET_NSTYPE) != CLONE_NEWNET:
            return None
        return NamespaceId(status.st_ino, _mark(fd))
    finally:
        os.close(fd)


def _cookie() -> str | None:
    """Return the mark that the kernel assigned to this thread's namespace; None if it assigns none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
        try:
            data = any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, _COOKIE.size)
        except OSError:
            return None
    return f"cookie {_COOKIE.unpack(data)[0]}"


def _loopback_mark() -> str:
    from hfi_sim.netdev.link_client import LinkClient

    links = LinkClient()
    try:
        loopback = links.get(_LOOPBACK)
    finally:
        links.close()
    alias = loopback.alias if loopback is not None else ""
    return f"alias {alias.removeprefix(_ALIAS)}" if alias.startswith(_ALIAS) else ""


def _mark(fd: int) -> str:
    """Return the mark of the namespace behind a descriptor; empty if this process may not enter it."""
    libc = Libc()

    def inside() -> str:
        libc.setns(fd, CLONE_NEWNET)
        return current_namespace().mark

    try:
        return run_in_thread(inside, "look into a namespace")
    except PermissionError:
        return _mark_from_its_user_namespace(libc, fd)
    except (OSError, NetdevError):
        return ""


def _mark_from_its_user_namespace(libc: Libc, fd: int) -> str:
    """Read the mark in a child that enters the user namespace owning the namespace.

    The creator of a user namespace has all capabilities in it, but a process with threads cannot enter one.
    """
    try:
        owner = fcntl.ioctl(fd, _NS_GET_USERNS)
    except OSError:
        return ""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            libc.setns(owner, CLONE_NEWUSER)
            libc.setns(fd, CLONE_NEWNET)
            os.write(writer, current_namespace().mark.encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.close(owner)
    with os.fdopen(reader, "rb") as answer:
        mark = answer.read(_ENOUGH).decode()
    os.waitpid(child, 0)
    return mark
