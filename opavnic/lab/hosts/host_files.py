"""What programs on a host find as /etc/hosts, kept up to date while the lab runs.

    h2           the address of h2 in the first virtual switch that the reader shares with it; IPv4 and IPv6, each its
    own h2.blue      its addresses in blue

The virtual switches are in the order of the VNICs of h2: those of the lab file, then those that an Ethernet Manager has
added. Each host reads its own file, because not all share a virtual switch.

One file for each host in the directory of the lab. A program that is started there sees it through a mount of its
own, so a file is changed in place: replacing it would leave the programs that run with the old one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Final

from hfi_sim.netdev.base import IpInterface
from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.vnics import HostVnic, plan_interfaces
from opavnic.lab.ownership.runtime import ETC_HOSTS

LOCALHOST: Final = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_NO_ADDRESS: Final = "127.0.1.1"
"""A host without an address in any virtual switch; Debian gives it to the name of a machine without a fixed address."""


NamedVnic = tuple[str, tuple[IpInterface, ...]]
"""A virtual switch, and the addresses of one host in it."""


class HostNames:
    """What the hosts of a lab are called at one moment.

    Hosts on the same virtual switches call the others alike: what they read is made once for all of them.
    """

    def __init__(self, vnics: Mapping[str, Sequence[NamedVnic]]) -> None:
        """Take the VNICs of all hosts of the lab, in their order."""
        self._vnics = vnics
        self._lines: dict[frozenset[str], str] = {}
        self._texts = {
            host: [(vesw, address.version, str(address.ip)) for vesw, found in its for address in found]
            for host, its in vnics.items()
        }

    def text(self, reader: str, before: str = LOCALHOST) -> str:
        """Return what /etc/hosts says on a host.

        Args:  before: the lines at its beginning.
        """
        shared = frozenset(vesw for vesw, _ in self._vnics.get(reader, ()))
        if shared not in self._lines:
            self._lines[shared] = "".join(self._lines_of(host, shared) for host in self._vnics)
        own = "" if self._texts.get(reader) else f"{_NO_ADDRESS} {reader}\n"
        head = before.rstrip("\n")
        return f"{head}\n# lab: what host {reader} calls the others\n{own}{self._lines[shared]}"

    def _lines_of(self, host: str, shared: Set[str]) -> str:
        its = self._texts[host]
        short = _short(its, shared)
        lines: dict[str, None] = {}
        for vesw, _, text in its:
            names = [host] if text in short else []
            if _NAME.fullmatch(vesw):  # a virtual switch that an EM has added may have any
                names.append(f"{host}.{vesw}")
            if names:
                lines[f"{text} {' '.join(names)}\n"] = None
        return "".join(lines)


def _short(addresses: Iterable[tuple[str, int, str]], shared: Set[str]) -> set[str]:
    """Return the addresses that a host's bare name stands for: one of each version at most."""
    found: dict[int, str] = {}
    for _, version, text in sorted(
        addresses, key=lambda address: address[0] not in shared
    ):  # stable: else in their own order
        found.setdefault(version, text)
    return set(found.values())


log = logging.getLogger("opavnic.lab")

_PAUSES: Final = 10
_LATEST_S: Final = 1.0
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class HostFiles:
    """The files of one lab."""

    def __init__(
        self, directory: Path, own: Mapping[str, bool], vnics: Callable[[], Mapping[str, Sequence[NamedVnic]]]
    ) -> None:
        """Prepare; nothing is written yet.

        Args:  own: all hosts; whether names of the machine mean nothing there. vnics: what the hosts have now.
        """
        self.on_written: dict[str, Callable[[str], None]] = {}
        """Called with what the file of a host says when that has changed, by host."""
        self.after_writing: Callable[[], None] = lambda: None
        """Called when the files are up to date with the addresses that hosts have."""
        self._directory = directory
        self._own = own
        self._vnics = vnics
        self._due: asyncio.TimerHandle | None = None
        self._took_s: float | None = None
        """How long the last writing took; None: nothing has been written, and nothing is until `write` is called."""
        self._failed = False
        self._written: dict[str, int] = {}
        """Hashes of what the files say."""

    def write_soon(self) -> None:
        """Write the files once for all changes of some time: ten times as long as writing takes, a second at most."""
        if self._due is None and self._took_s is not None:
            delay = min(_PAUSES * self._took_s, _LATEST_S)
            self._due = asyncio.get_running_loop().call_later(delay, self.write)

    def write(self) -> None:
        """Write the files that have changed. A disk that is full is logged once, and tried again at the next change."""
        loop = asyncio.get_running_loop()
        self._due, began = None, loop.time()
        names = HostNames(self._vnics())
        try:
            self._directory.mkdir(mode=0o755, exist_ok=True)
            for host, is_own in self._own.items():
                text = names.text(host, LOCALHOST if is_own else _machines())
                if self._written.get(host) != hash(text):
                    _write(self._directory / host, text)
                    self._written[host] = hash(text)
                    if host in self.on_written:
                        self.on_written[host](text)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("names of hosts are not up to date: %s: %s", self._directory, error.strerror)
            self._failed = True
        self.after_writing()
        self._took_s = loop.time() - began

    def follow(self, own: Mapping[str, bool]) -> None:
        """Write the files of these hosts from now on, and remove those of others."""
        for host in self._own.keys() - own.keys():
            self._written.pop(host, None)
            (self._directory / host).unlink(missing_ok=True)
        self._own = own
        self.write()

    def close(self) -> None:
        """Write no more."""
        if self._due is not None:
            self._due.cancel()
        self._own = {}


def named_vnics(
    model: LabModel, vnics: Iterable[HostVnic], vesw_names: Mapping[int, str], elsewhere: Iterable[str] = ()
) -> dict[str, list[NamedVnic]]:
    """Return the VNICs by host, with the addresses that they have now; a virtual machine with those kept for it.

    Args:  vesw_names: names of known virtual switches by id. elsewhere: hosts on other machines, which have what the
           lab file gives them.
    """
    hosts: dict[str, list[NamedVnic]] = {name: [] for name in model.hosts}
    vesws = {vesw.name: vesw for vesw in model.vesws}
    for vnic in vnics:
        if vnic.netdev is None or vnic.adapter is None:
            continue
        addresses = tuple(vnic.netdev.ip_addresses)
        if vnic.asked is not None and model.hosts[vnic.host].tap is not None:
            addresses = model.ips_of(vesws[vnic.asked.vesw.name], vnic.host)
        id_ = vnic.adapter.vesw_id or (0 if vnic.asked is None else vnic.asked.vesw.id)
        hosts[vnic.host].append((vesw_names.get(id_, vnic.interface), addresses))
    for host in elsewhere:
        if model.hosts[host].tap is None:
            hosts[host] = [(item.vesw.name, item.addresses) for item in plan_interfaces(model, host)]
        else:
            hosts[host] = [(vesw.name, model.ips_of(vesw, host)) for vesw, _ in model.vnics[host]]
    return hosts


def _machines() -> str:
    try:
        return Path(ETC_HOSTS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return LOCALHOST


def _write(path: Path, text: str) -> None:
    data = text.encode()
    fd = os.open(path, _FLAGS, 0o644)
    try:
        os.fchmod(fd, 0o644)
        os.pwrite(
            fd, data, 0
        )  # then cut: a reader in between finds old lines behind the new ones, and never none
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)
