"""The credits of one connection: how many messages may be sent, and which messages return them.

Source: the public kiblnd_post_tx_locked(), kiblnd_need_noop(), kiblnd_handle_rx() and kiblnd_credits_highwater().
"""

from __future__ import annotations

from lnet.base.errors import ProtocolError
from lnet.wire.codes import HIGHWATER_1, VERSION_1
from lnet.wire.msg import CREDITED, CREDITED_1, KibMsg


class ConnCredits:
    """Credits of both directions, in a version of the protocol."""

    def __init__(self, version: int) -> None:
        """Make it without credits; `agree` gives them."""
        old = version == VERSION_1
        self.left = 0
        """Messages that may still be sent."""
        self.owed = 0
        """Credits to return to the peer: its messages that have been received (ibc_outstanding_credits)."""
        self._depth = 0
        self._posted = 0
        """Messages that the peer may still send."""
        self._old = old
        self._credited = CREDITED_1 if old else CREDITED
        self._reserved = 1 if old else 0
        """Credits that only a NOOP may use, so that credits can be returned."""

    def agree(self, depth: int) -> None:
        """Start with the queue depth that both ends agreed on."""
        self._depth = self.left = self._posted = depth

    @property
    def enough(self) -> bool:
        """Whether a message that needs a credit may be sent."""
        return self.left > self._reserved

    @property
    def noop_allowed(self) -> bool:
        """Whether a NOOP may be sent: in version 0x11 only with a credit, and the last one only to return others."""
        return not self._old or self.left > (0 if self.owed else 1)

    @property
    def noop_due(self) -> bool:
        """Whether so many credits are owed that a NOOP is to return them."""
        half = max(1, self._depth // 2)
        return self.owed >= (HIGHWATER_1 if self._old and self._depth > HIGHWATER_1 else half)

    def spend(self, kind: int) -> int:
        """Account for a message that is being sent; return the credits that it returns to the peer."""
        returned, self.owed = self.owed, 0
        self._posted += returned
        self.left -= kind in self._credited
        return returned

    def arrived(self, message: KibMsg) -> None:
        """Account for a message of the peer.

        Raises:  ProtocolError: the peer has no credit for it, or returns more than it has received.
        """
        if self.left + message.credits > self._depth:
            raise ProtocolError(
                f"the peer returns {message.credits} credits on top of {self.left}; "
                f"the queue depth is {self._depth}"
            )
        if message.type in self._credited:
            if self._posted == 0:
                raise ProtocolError(f"the peer exceeds its {self._depth} credits")
            self._posted -= 1
            self.owed += 1
        self.left += message.credits
