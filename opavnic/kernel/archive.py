"""An initial file system for a kernel: a cpio archive of the format newc, compressed with gzip.

Source: Documentation/driver-api/early-userspace/buffer-format.rst of Linux.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Final

_MAGIC: Final = "070701"
_FILE: Final = 0o100755
_DIRECTORY: Final = 0o040755
_END: Final = "TRAILER!!!"


def archive(files: Mapping[str, bytes], directories: tuple[str, ...] = ()) -> bytes:
    """Return the archive of executable files, by path, and of empty directories; the same bytes for the same files."""
    members = [(name, _DIRECTORY, b"") for name in directories]
    members += [(name, _FILE, content) for name, content in files.items()]
    members.append((_END, 0, b""))
    packed = b"".join(_member(number, *member) for number, member in enumerate(members, start=1))
    return gzip.compress(packed, compresslevel=1, mtime=0)


def _member(number: int, name: str, mode: int, content: bytes) -> bytes:
    path = name.encode() + b"\0"
    numbers = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    head = _MAGIC.encode() + "".join(f"{value:08x}" for value in numbers).encode() + path
    return _padded(head) + _padded(content)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)
