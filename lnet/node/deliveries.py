"""The receiving side of a node: deliver each PUT once and answer each GET. Sans-IO."""

from __future__ import annotations

import errno
from collections.abc import Callable

from lnet.base.nid import Nid
from lnet.o2iblnd.peer import KibPeer
from lnet.objects.peers import DELIVERIES_KEPT
from lnet.objects.stats import Received
from lnet.wire.lnet_hdr import LnetHdr
from lnet.wire.ping import PING_MATCH_BITS, RESERVED_PORTAL

GetHandler = Callable[[Nid, LnetHdr], bytes | int]
"""Returns the data for a peer's GET, or a negative errno."""


def nothing_to_get(nid: Nid, hdr: LnetHdr) -> int:
    """Refuse every GET."""
    return -errno.ENOENT


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


class Deliveries:
    """Delivers PUTs and answers GETs; remembers which messages of each node have been delivered."""

    def __init__(
        self,
        get_handler: GetHandler,
        report: Callable[[Received], None],
        *,
        answer_ping: Callable[[LnetHdr], bytes | None],
        pushed: Callable[[Nid, bytes], None],
    ) -> None:
        """Make it.

        Args:  answer_ping: returns the answer to a GET, or None if it is no ping. pushed: called with what a peer
               pushes.
        """
        self.duplicates = 0
        """Repeated messages, which were not delivered again."""
        self._get_handler = get_handler
        self._report = report
        self._answer_ping = answer_ping
        self._pushed = pushed
        self._delivered = DuplicateFilter()

    def has(self, peer: KibPeer, hdr: LnetHdr) -> bool:
        """Return whether a message has already been delivered."""
        known = self._delivered.has(hdr.interface_cookie, hdr.object_cookie)
        self.duplicates += known
        return known

    def deliver(self, peer: KibPeer, hdr: LnetHdr, data: bytes) -> bool:
        """Deliver a PUT unless it has already been delivered; return whether it has not."""
        if not self._delivered.add(peer.nid, hdr.interface_cookie, hdr.object_cookie):
            self.duplicates += 1
            return False
        if (hdr.ptl_index, hdr.match_bits) == (RESERVED_PORTAL, PING_MATCH_BITS):
            self._pushed(peer.nid, data)
            return True
        self._report(
            Received(peer.nid, peer.net.nid_of(peer.dev), peer.dev, hdr.match_bits, hdr.hdr_data, data)
        )
        return True

    def read(self, peer: KibPeer, hdr: LnetHdr) -> bytes | int:
        """Answer a GET: a ping, or one for the user."""
        answer = self._answer_ping(hdr)
        return self._get_handler(peer.nid, hdr) if answer is None else answer
