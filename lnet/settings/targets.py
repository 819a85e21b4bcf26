"""Targets: the addresses at which a NID can be reached, from a file, from DLC, or announced by the peer.

The file (`/etc/sysconfig/lnet_o2ibs.conf` on a real node) has one target per line, `NID ip1 ... ipN`, with
spaces or commas between the addresses. Blank lines and `#` comments are allowed.
Source: seed 004, "Target configuration" and kib_target_t.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address

from lnet.base.errors import LnetConfigError, NidError
from lnet.base.nid import Nid, parse_addr
from lnet.settings.networks import LNET_MAX_INTERFACES


@dataclass(frozen=True, slots=True)
class KibTarget:
    """The addresses of one NID, in round-robin order; at most 16."""

    tg_nid: Nid
    tg_addr: tuple[IPv4Address, ...]
    learned: bool = False
    """Announced by the peer; a configured target replaces it."""

    def __post_init__(self) -> None:
        if not self.tg_addr:
            raise NidError(f"target {self.tg_nid} has no address")
        if len(self.tg_addr) > LNET_MAX_INTERFACES:
            raise NidError(
                f"target {self.tg_nid} has {len(self.tg_addr)} addresses; {LNET_MAX_INTERFACES} are allowed"
            )
        twice = next((addr for addr in self.tg_addr if self.tg_addr.count(addr) > 1), None)
        if twice is not None:
            raise NidError(f"address {twice} appears twice in target {self.tg_nid}")

    @classmethod
    def of(cls, nid: str, ips: Iterable[str]) -> KibTarget:
        """Make a target from text.

        Raises:  NidError: a bad NID, a bad or repeated address, no address, or more than 16.
        """
        return cls(Nid.parse(nid), tuple(map(parse_addr, ips)))

    def __str__(self) -> str:
        return f"{self.tg_nid} {' '.join(map(str, self.tg_addr))}"


def parse_targets(text: str, path: str = "targets") -> list[KibTarget]:
    """Read a targets file.

    Raises:  LnetConfigError: with file and line: a bad NID, a bad address, no address or more than 16, or a NID that
             appears twice.
    """
    targets: dict[Nid, KibTarget] = {}
    for line, content in enumerate(text.splitlines(), 1):
        words = content.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            target = KibTarget.of(words[0], words[1:])
        except NidError as error:
            raise LnetConfigError(path, line, str(error)) from None
        if target.tg_nid in targets:
            raise LnetConfigError(path, line, f"target {target.tg_nid} appears twice")
        targets[target.tg_nid] = target
    return list(targets.values())
