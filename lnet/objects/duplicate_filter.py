"""Memory of delivered messages, so that a message retried over another route is not delivered twice."""

from __future__ import annotations

from lnet.objects.tx import MESSAGE_WINDOW


class DeliveredIds:
    """Numbers of the messages delivered from one peer in its current incarnation.

    The sender keeps the numbers in flight within a window. A number below the window has been settled, whether
    delivered or failed, and need not be remembered individually.
    """

    def __init__(self) -> None:
        self._stamp = 0
        self._newest = 0
        self._seen: set[int] = set()

    def has(self, stamp: int, number: int) -> bool:
        """Return whether the message has been delivered or is too old to be."""
        if stamp != self._stamp:
            return stamp < self._stamp
        return number in self._seen or number <= self._newest - MESSAGE_WINDOW

    def add(self, stamp: int, number: int) -> bool:
        """Remember the message as delivered; return False if `has` was already true for it."""
        if self.has(stamp, number):
            return False
        if stamp != self._stamp:
            self._stamp, self._newest = stamp, 0
            self._seen.clear()
        self._newest = max(self._newest, number)
        self._seen.add(number)
        if len(self._seen) > 2 * MESSAGE_WINDOW:
            floor = self._newest - MESSAGE_WINDOW
            self._seen = {seen for seen in self._seen if seen > floor}
        return True
