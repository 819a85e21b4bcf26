"""What the journal of a lab says of each thing that it has made, entered or changed on the machine.

An empty `namespace` is that of the machine; `inode` and `mark` are its identity, which alone proves anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from opavnic.lab.ownership.identity import NamespaceId

_NEVER_EMPTY: Final = ("path", "mark", "boot")
_PLAIN: Final[dict[str, type | tuple[type, ...]]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "dict[str, str]": dict,
    "str | None": (str, type(None)),
}


def checked(kind: type, data: dict[str, Any]) -> dict[str, Any]:
    """Return `data` if it has valid values for all fields of a dataclass, as stored in a journal; else ValueError."""
    for item in fields(kind):
        if item.name not in data:
            raise ValueError(f"{item.name} is missing")
        wanted = _PLAIN.get(str(item.type), list)
        value = data[item.name]
        if not isinstance(value, wanted) or (value == "" and item.name in _NEVER_EMPTY):
            raise ValueError(f"{item.name} is {json.dumps(value)[:40]}")
    return data


class _Identified:
    """What is in a network namespace, or is one."""

    __slots__ = ()
    inode: int
    mark: str

    @property
    def identity(self) -> NamespaceId:
        """The identity of the namespace, unique in this boot."""
        return NamespaceId(self.inode, self.mark)


@dataclass(slots=True)
class NamespaceEntry(_Identified):
    """A network namespace of the lab."""

    host: str
    path: str
    inode: int
    mark: str
    """Together with the inode, its identity; see `identity.NamespaceId`."""

    @classmethod
    def of(cls, host: str, path: Path, identity: NamespaceId) -> Self:
        """Return the entry of a namespace."""
        return cls(host, str(path), identity.inode, identity.mark)


@dataclass(slots=True)
class NetdevEntry:
    """An interface of the lab; it disappears with the process that created it."""

    host: str
    name: str
    namespace: str | None
    """None: on the machine itself."""


@dataclass(slots=True)
class GuestEntry(_Identified):
    """A host that was there before the lab and stays when it ends."""

    host: str
    kind: str
    """The key of the lab file that made it one."""
    namespace: str
    """Its network namespace; empty: that of the machine."""
    inode: int
    mark: str
    """Together with the inode, the identity of that namespace."""
    engine: str = ""
    container: str = ""
    """The id of the container; names can be given to another."""


@dataclass(slots=True)
class LinkEntry(_Identified):
    """An interface besides the VNICs that the lab makes, and that outlives the process of the lab."""

    host: str
    name: str
    namespace: str
    """The network namespace it is in; empty: that of the machine."""
    inode: int
    mark: str
    """Together with the inode, the identity of that namespace."""
    alias: str
    """A random word in it proves that the interface is the lab's."""
    address: str
    """Its random MAC address, which it has from the first moment, before it has the alias."""


@dataclass(slots=True)
class SettingEntry(_Identified):
    """A setting that is not the lab's and that it has changed: a sysctl, or whether an interface is up."""

    what: str
    """`sysctl` and its path below /proc/sys, or `up` and the name of an interface."""
    namespace: str
    """The network namespace; empty: that of the machine."""
    inode: int
    mark: str
    before: str
    after: str
    """It is put back only where it still has this value."""
    ifindex: int = 0
