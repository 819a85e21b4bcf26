"""Interfaces that a lab makes besides its VNICs, and settings of others that it changes: all of it can be proven and
undone.

Both outlive the process of the lab, so the journal says first what will be made. An interface is the lab's if it is in
the namespace of the journal and has the alias of the journal, a random word; or, made in the very moment in which the
lab was killed, no alias and the random address. A setting is put back where it still is what the lab has made it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr, mac_text
from hfi_sim.netdev.bridging import BridgeClient
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.netlink import LinkState
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.identity import NamespaceId, namespace_at
from opavnic.lab.ownership.journal_entries import LinkEntry, SettingEntry
from opavnic.lab.ownership.runtime import Journal

_MACHINE: Final = Path("/proc/self/ns/net")
SYSCTL: Final = "sysctl"
LINK_UP: Final = "up"
_LOCAL: Final = 0x02


@dataclass(frozen=True, slots=True)
class NamespaceRef:
    """A network namespace in which the lab makes or changes something."""

    identity: NamespaceId
    name: str = ""
    """A path by which another process can find it; empty: that of the machine."""
    held: Path | None = None
    """A path for this process; None: it is there already."""


def random_mac() -> MacAddr:
    """Return a random unicast address with the local bit."""
    return MacAddr(bytes([secrets.randbits(6) << 2 | _LOCAL]) + secrets.token_bytes(5))


class Owned:
    """Makes and changes things of one lab, each in the journal before it is done."""

    def __init__(self, journal: Journal, save: Callable[[], None]) -> None:
        self._journal = journal
        self._save = save

    def make(
        self, host: str, place: NamespaceRef, name: str, how: Callable[[BridgeClient, MacAddr], None]
    ) -> LinkState:
        """Make an interface that does not exist yet.

        Args:    how: makes it under `name` with the given address.
        Raises:  LabError: the name is taken. NetdevError: it cannot be made.
        """
        with contextlib.closing(BridgeClient(place.held)) as links:
            if links.find(name) is not None:
                where = f" in {place.name}" if place.name else " on this machine"
                raise LabError(f"an interface {name} exists{where} and is not the lab's; it is left alone")
            mac = random_mac()
            alias = f"{self._journal.alias}:{secrets.token_hex(16)}"
            entry = LinkEntry(
                host, name, place.name, place.identity.inode, place.identity.mark, alias, mac_text(mac)
            )
            self._journal.links.append(entry)
            self._save()
            how(links, mac)
            found = links.find(name)
            if found is None or found.address != mac:
                raise LabError(f"interface {name} vanished while it was made")
            links.set_alias(found.ifindex, alias)
            return found

    def set_sysctl(self, place: NamespaceRef, key: str, after: str) -> None:
        """Change a sysctl that is not the lab's, `net/ipv4/...`, until the lab ends. Raises LabError."""
        file = Path("/proc/sys", key)
        try:
            before = run_in_namespace(place.held, lambda: file.read_text(encoding="ascii").strip())
            if before == after:
                return
            self._remember(f"{SYSCTL} {key}", place, before, after)
            run_in_namespace(place.held, lambda: file.write_text(after, encoding="ascii"))
        except OSError as error:
            raise LabError(f"cannot set {key.replace('/', '.')} to {after}: {error.strerror}") from error

    def set_up(self, place: NamespaceRef, links: BridgeClient, link: LinkState) -> None:
        """Set an interface that is not the lab's up until the lab ends."""
        if not link.up:
            self._remember(f"{LINK_UP} {link.name}", place, "0", "1", link.ifindex)
            links.set_up(link.ifindex, True)

    def _remember(self, what: str, place: NamespaceRef, before: str, after: str, ifindex: int = 0) -> None:
        identity = place.identity
        self._journal.settings.append(
            SettingEntry(what, place.name, identity.inode, identity.mark, before, after, ifindex)
        )
        self._save()


def remove_links(journal: Journal, *, dry_run: bool = False) -> list[str]:
    """Remove the interfaces of a journal that prove to be the lab's; return their names. Raises LabError."""
    return [
        entry.name
        for entry in journal.links
        if _in_its_namespace(entry, lambda entry=entry: _remove(entry, dry_run))  # type: ignore[misc]
    ]


def _remove(entry: LinkEntry, dry_run: bool) -> bool:
    with contextlib.closing(BridgeClient()) as links:
        link = links.find(entry.name)
        if link is None or not _is_made(entry, link):
            link = next((other for other in links.links_now() if other.alias == entry.alias), None)
        if link is None:
            return False
        if not dry_run:
            try:
                links.delete(link.ifindex)
            except NetdevError as error:
                if error.errno != errno.ENODEV:  # the other end of a pair goes with its namespace
                    raise
        return True


def _is_made(entry: LinkEntry, link: LinkState) -> bool:
    return link.alias == entry.alias or (not link.alias and mac_text(link.address) == entry.address)


def put_back(journal: Journal, *, dry_run: bool = False) -> list[str]:
    """Put settings back, the newest first; return what was put back. Raises LabError."""
    return [
        f"{entry.what} = {entry.before}"
        for entry in reversed(journal.settings)
        if _in_its_namespace(entry, lambda entry=entry: _put_back(entry, dry_run))  # type: ignore[misc]
    ]


def _put_back(entry: SettingEntry, dry_run: bool) -> bool:
    kind, _, what = entry.what.partition(" ")
    if kind == SYSCTL:
        file = Path("/proc/sys", what)
        try:
            changed = file.read_text(encoding="ascii").strip() == entry.after
        except FileNotFoundError:
            return False
        if changed and not dry_run:
            file.write_text(entry.before, encoding="ascii")
        return changed
    with contextlib.closing(BridgeClient()) as links:
        link = links.find(what)
        changed = link is not None and link.ifindex == entry.ifindex and link.up
        if link is not None and changed and not dry_run:
            links.set_up(link.ifindex, False)
        return changed


def _in_its_namespace(entry: LinkEntry | SettingEntry, do: Callable[[], bool]) -> bool:
    """Run `do` in the namespace of an entry, if that is still there and proves to be the same one; else return
    False."""
    path = Path(entry.namespace) if entry.namespace else _MACHINE
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        held = Path(f"/proc/self/fd/{fd}")
        if namespace_at(held) != entry.identity:
            return False
        return run_in_namespace(held, do)
    except (OSError, NetdevError) as error:
        raise LabError(
            f"cannot undo {getattr(entry, 'name', '') or getattr(entry, 'what', '')}: {error}"
        ) from error
    finally:
        os.close(fd)
