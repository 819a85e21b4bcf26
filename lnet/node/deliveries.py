"""The receiving side of a node: deliver each PUT once and answer each GET. Sans-IO."""

from __future__ import annotations

import errno
from collections.abc import Callable

from lnet.base.nid import Nid
from lnet.o2iblnd.peer import KibPeer
from lnet.objects.duplicate_filter import DuplicateFilter
from lnet.objects.tx import Received
from lnet.wire.lnet_hdr import LnetHdr
from lnet.wire.ping import PING_MATCH_BITS, RESERVED_PORTAL

GetHandler = Callable[[Nid, LnetHdr], bytes | int]
"""Returns the data for a peer's GET, or a negative errno."""


def nothing_to_get(nid: Nid, hdr: LnetHdr) -> int:
    """Refuse every GET."""
    return -errno.ENOENT


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
