"""What a file system consists of: directories, texts, links, and devices that a program can open."""

from __future__ import annotations

import itertools
import stat
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

ROOT_INO: Final = 1
_TEXT_SIZE: Final = 4096
"""The size that files of sysfs show."""


class Handle(Protocol):
    """A device file that a program has open. Its methods raise UmadError with the errno of the call."""

    on_news: Callable[[], None]
    """Called by the device when it may be read, or has died."""

    @property
    def readable(self) -> bool:
        """Whether a read returns at once."""
        ...

    @property
    def dead(self) -> bool:
        """Whether the device has gone away."""
        ...

    def read(self, size: int) -> bytes | None:
        """Return the next message, None where there is none yet."""

    def write(self, data: bytes) -> int:
        """Take a message; return the number of bytes taken."""
        ...

    def ioctl(self, command: int, data: bytes) -> bytes:
        """Do what an ioctl asks for; return its argument afterwards."""
        ...

    def close(self) -> None:
        """End it: the program has closed its last descriptor, or has been killed."""


class FileNode:
    """One file; its number is its place in the tree."""

    def __init__(self) -> None:
        self.ino = 0


class Directory(FileNode):
    """A directory; `parent` is itself at the root."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, FileNode] = {}
        self.parent = self


class Text(FileNode):
    """A file whose content is made when it is opened; one that takes what is written can be written by root."""

    def __init__(self, content: Callable[[], str], take: Callable[[bytes], None] | None = None) -> None:
        super().__init__()
        self.content = content
        self.take = take


class Symlink(FileNode):
    """A symbolic link."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self.target = target


class DeviceFile(FileNode):
    """A device; `open` makes the handle of one opening.

    It may raise UmadError: EAGAIN where another opening must end first.
    """

    def __init__(self, open_: Callable[[], Handle]) -> None:
        super().__init__()
        self.open = open_
        self.waiting: deque[Callable[[], bool]] = deque()
        """Opens that wait for that, first come first: each returns whether it has opened the device."""

    def freed(self) -> None:
        """Let the first of those that wait open the device."""
        while self.waiting:
            if self.waiting.popleft()():
                return


class Tree:
    """A whole file system; it does not change but in the contents of its texts."""

    def __init__(self) -> None:
        self._numbers = itertools.count(ROOT_INO)
        self.nodes: dict[int, FileNode] = {}
        self.root = Directory()
        self._enter(self.root)

    def _enter(self, node: FileNode) -> None:
        node.ino = next(self._numbers)
        self.nodes[node.ino] = node

    def add(self, path: str, node: FileNode) -> None:
        """Put a node at a path such as `infiniband/hfi1_0/node_guid`; directories on the way are made.

        Raises:  ValueError: something is there already.
        """
        *above, name = path.split("/")
        directory = self.root
        for part in above:
            found = directory.entries.get(part)
            if found is None:
                found = Directory()
                found.parent = directory
                directory.entries[part] = found
                self._enter(found)
            if not isinstance(found, Directory):
                raise ValueError(f"{part} in {path} is no directory")
            directory = found
        if name in directory.entries:
            raise ValueError(f"{path} is there already")
        directory.entries[name] = node
        if isinstance(node, Directory):
            node.parent = directory
        self._enter(node)

    def text(self, path: str, content: str | Callable[[], str]) -> None:
        """Put a text at a path, with a line feed at its end, as in sysfs."""
        if isinstance(content, str):
            self.add(path, Text(lambda: content + "\n"))
        else:
            self.add(path, Text(lambda: content() + "\n"))


def attributes_of(node: FileNode) -> tuple[int, int, int]:
    """Return what stat(2) shows of a node: number, mode and size."""
    if isinstance(node, Directory):
        return node.ino, stat.S_IFDIR | 0o755, 0
    if isinstance(node, Symlink):
        return node.ino, stat.S_IFLNK | 0o777, len(node.target.encode())
    if isinstance(node, DeviceFile):
        return node.ino, stat.S_IFREG | 0o600, 0
    mode = 0o644 if isinstance(node, Text) and node.take is not None else 0o444
    return node.ino, stat.S_IFREG | mode, _TEXT_SIZE
