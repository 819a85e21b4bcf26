"""The frames that a VNIC of a scenario has received, patterns that select some, and what answers them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from scapy.layers.l2 import Ether
from scapy.packet import NoPayload, Packet

from opavnic.scenario.base import ScenarioError, check_time

Pattern = Any
"""A packet matches frames with equal values in all fields that it sets; a layer type, frames with that layer."""


class Matcher:
    """Matches frames against a pattern."""

    def __init__(self, pattern: Pattern) -> None:
        """Check the pattern.

        Raises:  ScenarioError: it is neither a packet, a layer, bytes nor a predicate.
        """
        is_type = isinstance(pattern, type)
        fits = issubclass(pattern, Packet) if is_type else isinstance(pattern, bytes) or callable(pattern)
        if not fits and not isinstance(pattern, Packet):
            raise ScenarioError(
                f"{pattern!r} is not a pattern; give a packet such as ARP(op=2), a layer such as ARP, bytes, "
                "or a function of the packet"
            )
        self._pattern = pattern

    def fits(self, frame: bytes) -> bool:
        """Return whether a frame matches. Args: frame: from the destination address on, without FCS."""
        pattern = self._pattern
        if isinstance(pattern, bytes):
            return frame == pattern
        packet = dissect(frame)
        if isinstance(pattern, Packet):
            return _has_layers(packet, pattern)
        if isinstance(pattern, type):
            return bool(packet.haslayer(pattern))
        return bool(pattern(packet))

    def __str__(self) -> str:
        pattern = self._pattern
        if isinstance(pattern, Packet):
            return " / ".join(_layer_text(layer) for layer in _layers(pattern))
        if isinstance(pattern, bytes):
            return f"frame of {len(pattern)} bytes"
        return getattr(pattern, "__name__", repr(pattern))


def dissect(frame: bytes) -> Packet:
    """Return a frame as a scapy packet."""
    return Ether(frame)


def summary(frame: bytes) -> str:
    """Return a one-line summary of a frame."""
    return str(dissect(frame).summary())


def _layers(packet: Packet) -> list[Packet]:
    layers = []
    while not isinstance(packet, NoPayload):
        layers.append(packet)
        packet = packet.payload
    return layers


def _has_layers(packet: Packet, pattern: Packet) -> bool:
    """Return whether `packet` has the layers of `pattern` in order, with the same values in all fields that it sets."""
    remaining = packet
    for layer in _layers(pattern):
        found = remaining.getlayer(type(layer))
        while found is not None and not _same_fields(found, layer):
            found = found.payload.getlayer(type(layer))
        if found is None:
            return False
        remaining = found.payload
    return True


def _same_fields(found: Packet, layer: Packet) -> bool:
    for name, value in layer.fields.items():
        field = layer.get_field(name)
        if field.i2repr(layer, value) != field.i2repr(found, found.getfieldval(name)):
            return False
    return True


def _layer_text(layer: Packet) -> str:
    values = ", ".join(
        f"{name}={layer.get_field(name).i2repr(layer, value)}" for name, value in layer.fields.items()
    )
    return f"{type(layer).__name__}({values})"


DEFAULT_WITHIN_S: Final = 0.01
_INBOX: Final = 4096
_SHOWN: Final = 12

Reply = Callable[[Any], Packet | None]


class FrameInbox(ABC):
    """Collects the frames that arrive, finds those that a test expects, and answers."""

    name: str
    """Of the VNIC, for messages."""

    def __init__(self) -> None:
        self.inbox: deque[bytes] = deque(maxlen=_INBOX)
        """Frames that have arrived and that no `expect` has taken."""
        self.frames = 0
        """Number of frames that have arrived."""
        self.on_frame: Callable[[bytes], None] | None = None
        """If set, receives every frame instead of the inbox; for many frames, as dissecting each takes long."""
        self._responders: list[tuple[Matcher, Reply]] = []
        self._waiters: list[tuple[Matcher, asyncio.Future[bytes]]] = []

    @abstractmethod
    def send(self, packet: Packet | bytes) -> bytes:
        """Send a frame, and return it as it was sent."""

    @abstractmethod
    def check_loop(self) -> None:
        """Check that the caller runs on the event loop of the scenario. Raises ScenarioError."""

    # --- receiving -----------------------------------------------------------------------------------------

    def deliver(self, frame: bytes) -> None:
        """Take a frame from the link layer."""
        self.frames += 1
        if self.on_frame is not None:
            self.on_frame(frame)
            return
        for matcher, reply in self._responders:
            if matcher.fits(frame) and (answer := reply(dissect(frame))) is not None:
                self.send(answer)
        for matcher, awaited in self._waiters:
            if awaited.done():
                continue
            try:
                fits = matcher.fits(frame)
            except Exception as error:  # raised by the test's predicate: pass it on to the waiting test
                awaited.set_exception(error)
                continue
            if fits:
                awaited.set_result(frame)
                return
        self.inbox.append(frame)

    async def expect(self, pattern: Pattern, *, within: float = DEFAULT_WITHIN_S) -> Packet:
        """Return the first matching frame among those that have arrived or arrive in time.

        Args:    pattern: `ARP(op=2)`: that layer with that value; a layer type; a predicate; bytes.
                 within: seconds.
        Raises:  AssertionError: no frame matched; the message lists those that came instead. ScenarioError: not a
                 valid pattern or time. Exceptions of a predicate are passed on.
        """
        matcher = Matcher(pattern)
        check_time("within", within)
        self.check_loop()
        for frame in self.inbox:
            if matcher.fits(frame):
                self.inbox.remove(frame)
                return dissect(frame)
        waiter = matcher, asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return dissect(await asyncio.wait_for(waiter[1], within))
        except TimeoutError:
            raise AssertionError(
                f"{self.name}: no {matcher} within {within * 1e3:g} ms{self._came()}"
            ) from None
        finally:
            self._waiters.remove(waiter)

    async def expect_none(self, pattern: Pattern, *, within: float = DEFAULT_WITHIN_S) -> None:
        """Let time pass, and check that no matching frame has arrived by then.

        Args:    pattern: as for `expect`. within: seconds.
        Raises:  AssertionError: one has. ScenarioError: not a valid pattern or time.
        """
        matcher = Matcher(pattern)
        check_time("within", within)
        self.check_loop()
        await asyncio.sleep(within)
        unwanted = [frame for frame in self.inbox if matcher.fits(frame)]
        if unwanted:
            raise AssertionError(
                f"{self.name}: {len(unwanted)} frames match {matcher}, the first: {summary(unwanted[0])}"
            )

    async def sniff(self, *, for_s: float) -> list[Packet]:
        """Let time pass; return the frames that are in the inbox then, and empty it. Args: for_s: seconds."""
        check_time("for_s", for_s)
        self.check_loop()
        await asyncio.sleep(for_s)
        frames = [dissect(frame) for frame in self.inbox]
        self.inbox.clear()
        return frames

    def _came(self) -> str:
        if not self.inbox:
            return "; nothing else came either"
        shown = [summary(frame) for frame in list(self.inbox)[-_SHOWN:]]
        return f"; {len(self.inbox)} other frames came, the last:\n  " + "\n  ".join(shown)

    # --- behaviour -----------------------------------------------------------------------------------------

    def respond(self, pattern: Pattern, reply: Reply) -> None:
        """Answer matching frames from now on.

        Args:    pattern: as for `expect`. reply: is given the frame as a scapy packet, and returns the answer; None
                 sends nothing.
        Raises:  ScenarioError: not a valid pattern.
        """
        self._responders.append((Matcher(pattern), reply))
