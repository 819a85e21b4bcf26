"""Memory of delivered messages, so that a message that comes over several routes is delivered once."""

from __future__ import annotations

from lnet.base.nid import Nid
from lnet.objects.peers import DELIVERIES_KEPT


class DuplicateFilter:
    """The messages delivered from each node, by the numbers that the node gave them.

    The sender is known by its cookie, which is another one after each restart, and not by a NID: a message may come
    from any interface of the node to any here, and NIDs come and go while it is in flight. The sender lets no more
    messages overtake one in flight than are remembered.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, dict[int, None]] = {}
        """By cookie; oldest delivery first."""
        self._cookies: dict[Nid, int] = {}
        """The last cookie from each NID."""

    def has(self, cookie: int, number: int) -> bool:
        """Return whether the message has been delivered."""
        return number in self._numbers.get(cookie, ())

    def add(self, nid: Nid, cookie: int, number: int) -> bool:
        """Remember a message from a NID as delivered; return False if it already was."""
        if self._cookies.get(nid) != cookie:
            self._met(nid, cookie)
        numbers = self._numbers[cookie]
        if number in numbers:
            return False
        numbers[number] = None
        if len(numbers) > DELIVERIES_KEPT:
            del numbers[next(iter(numbers))]
        return True

    def _met(self, nid: Nid, cookie: int) -> None:
        """Forget an earlier incarnation of a node when every NID has been heard of the later one."""
        old = self._cookies.get(nid)
        self._cookies[nid] = cookie
        self._numbers.setdefault(cookie, {})
        if old is not None and old not in self._cookies.values():
            del self._numbers[old]
