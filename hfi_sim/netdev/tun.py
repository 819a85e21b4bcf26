"""The TUN driver of Linux, as far as it makes TAPs: descriptors, and what they are asked.

Source: linux/if_tun.h, drivers/net/tun.c.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.link_client import LinkClient
from hfi_sim.netdev.namespace import run_in_namespace

TUN_DEVICE: Final = "/dev/net/tun"

_TUNSETIFF: Final = 0x400454CA
_TUNGETFEATURES: Final = 0x800454CF
_TUNSETOFFLOAD: Final = 0x400454D0
_TUNSETPERSIST: Final = 0x400454CB
_TUNSETOWNER: Final = 0x400454CC
_TUNGETIFF: Final = 0x800454D2
_TUNSETCARRIER: Final = 0x400454E2
_TUNGETDEVNETNS: Final = 0x54E3
_IFF_TAP: Final = 0x0002
_IFF_NO_CARRIER: Final = 0x0040
_IFF_NO_PI: Final = 0x1000
_IFF_VNET_HDR: Final = 0x4000
_IFF_TUN_EXCL: Final = 0x8000
_CSUM: Final = 0x01
_TSO4_TSO6_ECN: Final = 0x02 | 0x04 | 0x08
_USO4_USO6: Final = 0x20 | 0x40
_IFREQ: Final = struct.Struct("16sH22x")
_CLOSING_THREADS: Final = 32


def open_tap(name: str, *, vnet_hdr: bool = False, carrier: bool = True) -> int:
    """Return the non-blocking descriptor of a new TAP in the network namespace of this thread.

    Raises:  NetdevError: no right to, or the name is taken.
    """
    try:
        fd = os.open(TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NetdevError(f"cannot open {TUN_DEVICE}: {error.strerror}", error.errno or 0) from error
    try:
        features = bytearray(4)
        fcntl.ioctl(fd, _TUNGETFEATURES, features)
        flags = _IFF_TAP | _IFF_NO_PI | _IFF_TUN_EXCL | (_IFF_VNET_HDR if vnet_hdr else 0)
        if not carrier:
            flags |= struct.unpack("I", features)[0] & _IFF_NO_CARRIER
        fcntl.ioctl(fd, _TUNSETIFF, _IFREQ.pack(name.encode(), flags))
        fcntl.ioctl(fd, _TUNSETOFFLOAD, 0)
        fcntl.ioctl(fd, _TUNSETCARRIER, struct.pack("i", carrier))
    except OSError as error:
        os.close(fd)
        reason = error.strerror
        if error.errno in (errno.EBUSY, errno.EINVAL):
            reason = "an interface of that name exists"
        raise NetdevError(f"cannot make TAP {name}: {reason}", error.errno or 0) from error
    return fd


def make_lasting_tap(links: LinkClient, name: str, mac: MacAddr, owner: int | None) -> None:
    """Make a TAP that stays, for another program to open by its name, in the namespace of `links`.

    Args:    owner: the user who may open it, besides root.
    Raises:  NetdevError: no right to, or the name is taken.
    """

    def make() -> None:
        fd = open_tap(name)
        try:
            found = links.find(name)
            if found is not None:
                links.set_address(found.ifindex, mac)
            if owner is not None:
                fcntl.ioctl(fd, _TUNSETOWNER, owner)
            fcntl.ioctl(fd, _TUNSETPERSIST, 1)
        except OSError as error:
            raise NetdevError(f"cannot keep TAP {name}: {error.strerror}", error.errno or 0) from error
        finally:
            os.close(fd)

    run_in_namespace(links.namespace, make)


def set_tap_carrier(fd: int, on: bool) -> None:
    """Turn the carrier of a TAP on or off. Raises OSError where its interface is gone."""
    fcntl.ioctl(fd, _TUNSETCARRIER, struct.pack("i", on))


def tap_name(fd: int) -> str:
    """Return the name of the interface of a TAP, in any namespace. Raises OSError where it is gone."""
    found = bytearray(_IFREQ.size)
    fcntl.ioctl(fd, _TUNGETIFF, found)
    return bytes(found[:16]).partition(b"\0")[0].decode(errors="surrogateescape")


def tap_namespace(fd: int) -> int:
    """Return a descriptor of the network namespace that the interface of a TAP is in, which the caller closes.

    Raises:  OSError: the interface is gone; this process has no right to; ENOTTY before Linux 5.2.
    """
    return fcntl.ioctl(fd, _TUNGETDEVNETNS)


def check_tap(fd: int) -> None:
    """Raise OSError if the interface of a TAP has been deleted; one in another namespace is there."""
    fcntl.ioctl(fd, _TUNGETIFF, bytearray(_IFREQ.size))


def leave_offloads(fd: int) -> bool:
    """Let the host leave checksums and segmentation to the reader of a TAP with virtio-net headers, as far as it can.

    Return whether that is also so for datagrams: a kernel that leaves these whole also takes merged ones, and one
    before Linux 6.2 refuses both. Raises OSError where it leaves nothing.
    """
    try:
        fcntl.ioctl(fd, _TUNSETOFFLOAD, _CSUM | _TSO4_TSO6_ECN | _USO4_USO6)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        fcntl.ioctl(fd, _TUNSETOFFLOAD, _CSUM | _TSO4_TSO6_ECN)
        return False
    return True


def close_descriptors(fds: Sequence[int]) -> None:
    """Close the descriptors of many TAPs, side by side.

    The kernel waits some 20 ms for each interface that goes, nearly all of it without holding a lock.
    """
    if fds:
        with ThreadPoolExecutor(min(len(fds), _CLOSING_THREADS)) as pool:
            list(pool.map(os.close, fds))
