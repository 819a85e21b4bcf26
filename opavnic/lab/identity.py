"""Which network namespace is a lab's: more than an inode, which Linux gives to the next namespace at once.

A namespace is known by its cookie, a number that the kernel gives once in a boot. A kernel before 5.14 tells no
cookie; there the loopback of each namespace of a lab bears a word of chance as its alias. A journal says of which
boot it is.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hfi_sim.errors import NetdevError
from hfi_sim.netdev.namespace import CLONE_NEWNET, CLONE_NEWUSER, Libc, run_in_thread
from opavnic.lab.errors import LabError

_SO_NETNS_COOKIE: Final = 71
_NS_GET_USERNS: Final = 0xB701
_THREAD_NET: Final = "/proc/thread-self/ns/net"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_COOKIE: Final = struct.Struct("=Q")
_ALIAS: Final = "opavnic netns "
_LOOPBACK: Final = 1
_ENOUGH: Final = 256


def boot_id() -> str:
    """Return what tells this boot of the machine from every other.

    Raises:  LabError: the kernel does not say.
    """
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError as error:
        raise LabError(f"cannot tell this boot from others: {_BOOT_ID}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class NamespaceId:
    """A network namespace, and no other of this boot."""

    inode: int
    """Narrows a search down and proves nothing."""
    mark: str
    """`cookie NUMBER`, or `alias WORD` on a kernel without cookies."""


def sign_namespace() -> NamespaceId:
    """Return the identity of the namespace that this thread has just made.

    Raises:  OSError, NetdevError: it cannot be given one.
    """
    mark = _cookie()
    if mark is None:
        from hfi_sim.netdev.netlink import LinkClient  # late: it costs a command time that makes nothing

        word = secrets.token_hex(16)
        links = LinkClient()
        try:
            links.set_alias(_LOOPBACK, _ALIAS + word)
        finally:
            links.close()
        mark = f"alias {word}"
    return NamespaceId(os.stat(_THREAD_NET).st_ino, mark)


def current_namespace() -> NamespaceId:
    """Return the identity of this thread's namespace; its mark is empty where no lab has made it."""
    return NamespaceId(os.stat(_THREAD_NET).st_ino, _cookie() or _loopback_mark())


def namespace_at(path: str | os.PathLike[str]) -> NamespaceId | None:
    """Return the identity of the namespace that a file such as /run/netns/NAME or /proc/PID/ns/net leads to.

    None where it leads to no namespace. Where that may not be looked into its mark is empty: it proves nothing.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if status.st_dev != os.stat("/proc/self/ns/net").st_dev:
            return None
        return NamespaceId(status.st_ino, _mark(fd))
    finally:
        os.close(fd)


def _cookie() -> str | None:
    """Return the mark that the kernel gave this thread's namespace; None where it gives none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
        try:
            data = any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, _COOKIE.size)
        except OSError:
            return None
    return f"cookie {_COOKIE.unpack(data)[0]}"


def _loopback_mark() -> str:
    from hfi_sim.netdev.netlink import LinkClient

    links = LinkClient()
    try:
        loopback = links.get(_LOOPBACK)
    finally:
        links.close()
    alias = loopback.alias if loopback is not None else ""
    return f"alias {alias.removeprefix(_ALIAS)}" if alias.startswith(_ALIAS) else ""


def _mark(fd: int) -> str:
    """Return the mark of the namespace behind a descriptor; empty where this process may not enter it."""
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
    """Let a child enter the user namespace to which a namespace belongs, and look.

    Whoever has made a user namespace may do all in it, but no process with threads can enter one.
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
