"""What programs on a host find as /etc/hosts, kept up to date while the lab runs.

One file for each host in the directory of the lab. A program that is started there sees it through a mount of its
own, so a file is changed in place: replacing it would leave the programs that run with the old one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.names import LOCALHOST, HostNames, NamedVnic
from opavnic.lab.hosts.vnics import HostVnic
from opavnic.lab.ownership.runtime import ETC_HOSTS

log = logging.getLogger("opavnic.lab")

_PAUSES: Final = 10
_LATEST_S: Final = 1.0
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class HostFiles:
    """The files of one lab."""

    def __init__(
        self,
        directory: Path,
        own: Mapping[str, bool],
        vnics: Callable[[], Mapping[str, Sequence[NamedVnic]]],
    ) -> None:
        """Prepare; nothing is written yet.

        Args:  own: all hosts; whether names of the machine mean nothing there. vnics: what the hosts have now.
        """
        self.on_written: dict[str, Callable[[str], None]] = {}
        """Called with what the file of a host says when that has changed, by host."""
        self.after_writing: Callable[[], None] = _do_nothing
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
                    self.on_written.get(host, _nothing)(text)
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
    model: LabModel, vnics: Iterable[HostVnic], vesw_names: Mapping[int, str]
) -> dict[str, list[NamedVnic]]:
    """Return the VNICs by host, with the addresses that they have now; a virtual machine with those kept for it.

    Args:  vesw_names: names of known virtual switches by id.
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
    return hosts


def _nothing(_text: str) -> None:
    """Tell no one."""


def _do_nothing() -> None:
    """Do no more."""


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
