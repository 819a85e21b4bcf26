"""The privilege to create TAPs and namespaces, obtained in private namespaces if the process lacks it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from hfi_sim.netdev.namespace import CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWUSER, Libc
from hfi_sim.netdev.tun import TUN_DEVICE
from opavnic.lab.file.errors import PrivilegeError
from opavnic.lab.ownership.runtime import ROOT_VARIABLE, runtime_root

_CAP_NET_ADMIN: Final = 12
_CAP_SYS_ADMIN: Final = 21


def has_capabilities(*, namespaces: bool = True) -> bool:
    """Return whether this process may create interfaces, and `namespaces` for hosts, where it runs."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    wanted = 1 << _CAP_NET_ADMIN | (1 << _CAP_SYS_ADMIN if namespaces else 0)
    return effective & wanted == wanted


def check_tun() -> None:
    """Raise PrivilegeError, with a remedy, if /dev/net/tun cannot be opened."""
    try:
        os.close(os.open(TUN_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        raise PrivilegeError(
            f"{TUN_DEVICE} does not exist: load the driver with `modprobe tun` (in a container: "
            f"--device={TUN_DEVICE} --cap-add=NET_ADMIN --cap-add=SYS_ADMIN)"
        ) from None
    except PermissionError:
        mode = stat.filemode(os.stat(TUN_DEVICE).st_mode)
        raise PrivilegeError(
            f"{TUN_DEVICE} is closed to this user ({mode}), so no TAP can be created: run this as root, "
            f"or as root run `chmod 0666 {TUN_DEVICE}`"
        ) from None
    except OSError as error:
        raise PrivilegeError(f"{TUN_DEVICE} cannot be opened: {error.strerror}") from error


def obtain(*, rootless: bool = False) -> bool:
    """Make sure that this process may create TAPs and namespaces.

    A process without the capabilities moves, with its future children, into new user, mount and network namespaces,
    where it has them. This must happen before the process starts a second thread.

    Args:    rootless: move even with the capabilities, and refuse root: files and sysctls of the machine that are
             root's would be open in its namespaces, too.
    Returns: whether it moved ("the machine itself" is then the private network namespace).
    Raises:  PrivilegeError: one line that says what is missing and how to get it.
    """
    if rootless and os.geteuid() == 0:
        raise PrivilegeError(
            "an untrusted lab runs as an ordinary user, and this is root, whose files and sysctls stay open to it in "
            "namespaces; as another user: setpriv --reuid=65534 --regid=65534 --clear-groups opavnic up --untrusted ..."
        )
    check_tun()
    if has_capabilities() and not rootless:
        return False
    root = runtime_root()
    uid, gid = os.getuid(), os.getgid()
    try:
        Libc().unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET)
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")
    except OSError as error:
        raise PrivilegeError(
            "CAP_NET_ADMIN and CAP_SYS_ADMIN are missing, and the system allows no user namespaces "
            f"({error.strerror}): run this as root"
        ) from error
    os.environ[ROOT_VARIABLE] = str(root)  # from here on the user looks like root
    return True
