"""What all commands of lnetctl share: the node, and arguments as text."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address
from typing import Any, Final, TypeVar

from lnet.base.errors import CommandError, NidError
from lnet.base.nid import Net, Nid, parse_nids
from lnet.node.lnd import Lnd
from lnet.node.node import LnetNode
from lnet.objects.objects import KibNet
from lnet.objects.peers import LocalNi, PeerNi
from lnet.settings.health import MAX_HEALTH
from lnet.settings.networks import Bonding, NetworkGroup
from lnet.settings.settings import Settings
from lnet.settings.targets import KibTarget

Document = dict[str, Any]
_T = TypeVar("_T")
LO: Final = "lo"
"""The network of a node with itself, which every node has."""
MAX_LEVEL: Final = 4
_INT: Final = re.compile(r"[+-]?\d{1,12}", re.ASCII)

OwnerOf = Callable[[IPv4Address], str | None]
"""Returns the name of the host with an address, or None where no host has it."""


def no_owner(addr: IPv4Address) -> None:
    """Know no owner of any address."""
    return


class Commands:
    """Commands on one node."""

    def __init__(
        self,
        node: LnetNode,
        owner_of: OwnerOf = no_owner,
        bonding_of: Callable[[Net], Bonding] = lambda net: Bonding.O2IBS,
        networks: Sequence[NetworkGroup] = (),
        targets: Sequence[KibTarget] = (),
    ) -> None:
        """Make it.

        Args:  bonding_of: says how a network that is added uses several interfaces. networks, targets: what the lab
               file gives the node.
        """
        self._node = node
        self._owner_of = owner_of
        self._bonding_of = bonding_of
        self._networks = networks
        self._targets = targets
        self._settings = Settings()
        self.configured = True

    @property
    def _lnd(self) -> Lnd:
        """The LND of the node, which has been told the time. Raises: CommandError: ENETDOWN: LNet is not configured."""
        if not self.configured:
            raise CommandError(
                errno.ENETDOWN, "LNet is not configured on this node; lnetctl lnet configure starts it"
            )
        lnd = self._node.lnd
        lnd.at(self._node.time())
        return lnd

    def _set_health(
        self, nis: Sequence[LocalNi | PeerNi], health: str, all_nis: str | None, missing: str
    ) -> Document:
        """Set the health of interfaces.

        Raises:  CommandError: EINVAL: not 0 to 1000; ENOENT: there are none; `missing` says which.
        """
        value = number_of("health", health)
        if not 0 <= value <= MAX_HEALTH:
            raise CommandError(errno.EINVAL, f"health {value}, expected 0 to {MAX_HEALTH}")
        if not nis and not (all_nis and value == MAX_HEALTH):
            raise CommandError(errno.ENOENT, missing)
        for ni in nis:
            self._lnd.rails.set_health_of(ni, value)
        self._node.poll()
        return {}

    def _nis(self, net: str | None) -> list[KibNet]:
        if net in (LO, f"{LO}0"):
            return []
        return list(self._lnd.nis.values()) if net is None else [self._ni(net)]

    def _ni(self, net: str) -> KibNet:
        parsed = checked(lambda: Net.parse(net))
        ni = self._lnd.nis.get(parsed)
        if ni is None:
            known = ", ".join(map(str, self._lnd.nis)) or "none"
            raise CommandError(errno.ENOENT, f"no network {parsed} on this node (known: {known})")
        return ni


def checked(parse: Callable[[], _T]) -> _T:
    """Return the result of `parse`; turn a NidError into EINVAL."""
    try:
        return parse()
    except NidError as error:
        raise CommandError(errno.EINVAL, str(error)) from None


def nid_of(text: str) -> Nid:
    """Read a NID. Raises: CommandError: EINVAL."""
    return checked(lambda: Nid.parse(text))


def nids_of(texts: Iterable[str]) -> list[Nid]:
    """Read NIDs and ranges of NIDs. Raises: CommandError: EINVAL."""
    return [nid for text in texts for nid in checked(lambda text=text: parse_nids(text))]  # type: ignore[misc]


def level_of(text: str) -> int:
    """Read the level of `-v`: 0 to 4; what is above is 4. Raises: CommandError: EINVAL: not a number."""
    return min(max(number_of("verbose", text), 0), MAX_LEVEL)


def number_of(what: str, text: str) -> int:
    """Read an integer of at most 12 digits. Raises: CommandError: EINVAL."""
    if not _INT.fullmatch(text.strip()):
        raise CommandError(errno.EINVAL, f"cannot parse {what} value {text.strip()[:40]!r}: not an integer")
    return int(text)
