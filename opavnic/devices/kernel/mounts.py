"""Puts the devices of a host where programs look for them, in the mount namespace of the process that becomes one.

/sys/class gets the directories infiniband, infiniband_mad and infiniband_verbs, /dev gets infiniband. Where the machine
has no such directory, none can be made: then a tmpfs covers /sys/class (or /dev), with everything bound into it that
was there before. All of it goes with the namespace.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hfi_sim.netdev.namespace import Libc

SYS_CLASS: Final = "/sys/class"
DEV: Final = "/dev"
DEV_NAME: Final = "infiniband"
SOURCE: Final = "opavnic"
"""What the list of mounts names as the source of ours."""

_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_MS_NOEXEC: Final = 8
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MNT_DETACH: Final = 2


def mount_fuse(fuse_fd: int, target: str) -> None:
    """Mount the file system behind a descriptor of /dev/fuse. Raises OSError."""
    options = f"fd={fuse_fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    Libc().mount(SOURCE, target, "fuse.opavnic", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, options)


def unmount(target: str) -> None:
    """Take the mount on top of a directory away. Raises OSError."""
    Libc().umount(target, _MNT_DETACH)


def device_at(target: str) -> int:
    """Return the st_dev of what is mounted on top of a directory; the file system itself is not asked.

    Raises:  LookupError: nothing is mounted there.
    """
    found = None
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if words[4] == target:
            major, minor = words[2].split(":")
            found = os.makedev(int(major), int(minor))
    if found is None:
        raise LookupError(f"nothing is mounted on {target}")
    return found


@contextlib.contextmanager
def opened(path: str) -> Iterator[str]:
    """Yield a path that leads to what `path` is now, even if something is mounted there later."""
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def show(directory: str, before: str, added: Mapping[str, str]) -> None:
    """Let directories appear in a directory.

    Args:    before: a path to the directory as it was (`opened`). added: names, and paths of what they are to show.
    Raises:  OSError: not possible; everything is as before.
    """
    libc = Libc()
    done = []
    covered = not all((Path(before) / name).is_dir() for name in added)
    try:
        if covered or directory == SYS_CLASS:
            libc.mount(SOURCE, directory, "tmpfs", _MS_NOSUID | _MS_NOEXEC, "mode=0755")
            done.append(directory)
            _bind_entries(libc, before, directory, set(added))
        for name, source in added.items():
            target = f"{directory}/{name}"
            if covered or directory == SYS_CLASS:
                os.mkdir(target)
            libc.mount(source, target, "none", _MS_BIND)
            done.append(target)
    except OSError:
        for target in reversed(done):
            libc.umount(target, _MNT_DETACH)
        raise


def _bind_entries(libc: Libc, before: str, directory: str, without: set[str]) -> None:
    """Bind everything of a directory but some names into the tmpfs that covers it."""
    with os.scandir(before) as entries:
        for entry in entries:
            if entry.name in without:
                continue
            source, target = entry.path, f"{directory}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(source), target)
                continue
            if stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode):
                os.mkdir(target)
            else:
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            libc.mount(source, target, "none", _MS_BIND | _MS_REC)
