"""The layer that disturbs packets according to rules: loss, damage, duplicates, delay, reordering.

`hfi_sim.base.random_stream` describes how rules draw random words: one for each packet that a rule matches and does not
skip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from hfi_sim.base.counters import Drop
from hfi_sim.base.random_stream import RandomStream
from hfi_sim.engine.events.outputs import RuleSpent
from hfi_sim.engine.events.queue import EngineState, Layer, Space
from hfi_sim.engine.link.rule import FaultKind, FaultRule
from hfi_sim.wire.icrc import TRAILER_SIZE
from hfi_sim.wire.lrh16b import SIZE as HEADER_SIZE

if TYPE_CHECKING:
    from hfi_sim.engine.link.direction import Direction

_ERRORS: Final = (FaultKind.LOSS, FaultKind.CORRUPT)
"""Faults that the far end counts as errors of the wire."""


class _Passage(NamedTuple):
    """One packet that the rules let pass, perhaps changed."""

    packet: bytes
    delay_ns: int = 0
    behind: int = 0
    """Hold it back until this many later packets have passed ..."""
    hold_ns: int = 0
    """... or until this time has passed."""


class _Held:
    """A packet that later ones may overtake."""

    def __init__(self, passage: _Passage, hops: int, number: int) -> None:
        self.packet = passage.packet
        self.delay_ns = passage.delay_ns
        self.behind = passage.behind
        self.hops = hops
        self.number = number


class FaultLayer:
    """The rules of one direction, in the order in which they were set, and the packets that they hold back."""

    def __init__(
        self, direction: Direction, state: EngineState, stream: RandomStream, on_error: Callable[[int], None]
    ) -> None:
        """Start without rules.

        Args:  stream: the random stream of the direction's faults. on_error: called when a fault damages or loses a
               packet.
        """
        self.rules: Sequence[FaultRule] = ()
        self._direction = direction
        self._state = state
        self._stream = stream
        self._on_error = on_error
        self._held: list[_Held] = []
        self._next: Layer

    def before(self, following: Layer) -> None:
        """Set the following layer."""
        self._next = following

    @property
    def is_idle(self) -> bool:
        """Whether there are no rules and no packet is held back."""
        return not self.rules and not self._held

    @property
    def is_holding(self) -> bool:
        """Whether a packet is held back for later ones to overtake."""
        return bool(self._held)

    @property
    def show_at_once(self) -> bool:
        """Whether an event may cause an output at once: a rule is spent, or a packet that was held back goes on."""
        return bool(self._held) or any(
            rule.count is not None or rule.kind is FaultKind.REORDER for rule in self.rules
        )

    def enter(self, now: int, packet: bytes, hops: int, _delay_ns: int, space: Space | None) -> None:
        """Apply the rules to a packet."""
        passages, drop = self._judge(now, packet)
        if drop is not None:
            self._direction.end(now, packet, drop)
            return
        for copy, passage in enumerate(passages):
            if copy:
                self._direction.take_up(passage.packet)
            if passage.behind:
                number = self._state.events.schedule(now + passage.hold_ns, self._held_long_enough)
                self._held.append(_Held(passage, hops, number))
            elif self._go_on(now, passage.packet, hops, passage.delay_ns, space):
                self._overtaken(now)

    def _go_on(self, now: int, packet: bytes, hops: int, delay_ns: int, space: Space | None) -> bool:
        """Pass a packet on if there is room for it; there may be none for a copy, or for a packet that was held
        back.
        """
        drop = self._direction.refusal(now, len(packet), space)
        if drop is not None:
            self._direction.end(now, packet, drop)
            return False
        self._next.enter(now, packet, hops, delay_ns, space)
        return True

    def _judge(self, now: int, packet: bytes) -> tuple[list[_Passage], Drop | None]:
        passages = [_Passage(packet)]
        for rule in self.rules:
            if rule.is_spent or not rule.match.fits(packet):
                continue
            rule.tally.seen += 1
            if rule.tally.seen <= rule.skip or not self._stream.hits(rule.chance):
                continue
            rule.tally.hits += 1
            if rule.tally.hits == rule.count:
                self._state.outputs.append(RuleSpent(now, rule.number))
            if rule.kind in _ERRORS:
                self._on_error(now)
            passages = _apply(rule, passages, self._stream)
            if not passages:
                return [], Drop.LINK_FAULT
        return passages, None

    # --- packets that others overtake ----------------------------------------------------------------------

    def _overtaken(self, now: int) -> None:
        """Count one more packet that has overtaken those held back."""
        for held in tuple(self._held):
            held.behind -= 1
            if held.behind == 0:
                self._state.events.cancel(held.number)
                self._let_go(now, held)

    def _held_long_enough(self, now: int, number: int) -> None:
        for held in self._held:
            if held.number == number:
                self._let_go(now, held)
                return

    def _let_go(self, now: int, held: _Held) -> None:
        self._held.remove(held)
        self._go_on(now, held.packet, held.hops, held.delay_ns, None)
        if self.is_idle:
            self._direction.compose()

    def cut(self) -> list[bytes]:
        """Remove the packets held back and return them: the link went down."""
        packets = [held.packet for held in self._held]
        for held in self._held:
            self._state.events.cancel(held.number)
        self._held.clear()
        return packets


def _apply(rule: FaultRule, passages: list[_Passage], stream: RandomStream) -> list[_Passage]:
    """Return what becomes of a packet and its copies; empty: they are lost."""
    match rule.kind:
        case FaultKind.LOSS:
            return []
        case FaultKind.DUPLICATE:
            return passages + passages[:1] * rule.copies
        case FaultKind.CORRUPT:
            return [each._replace(packet=flip_bits(each.packet, rule.bits, stream)) for each in passages]
        case FaultKind.DELAY:
            return [each._replace(delay_ns=each.delay_ns + rule.delay_ns) for each in passages]
        case FaultKind.REORDER:
            return [passages[0]._replace(behind=rule.behind, hold_ns=rule.hold_ns), *passages[1:]]
        case _:
            raise AssertionError(f"{rule.kind} acts on no packet")


def flip_bits(packet: bytes, bits: int, stream: RandomStream) -> bytes:
    """Return a packet with bits flipped between the header and the tail, where the ICRC covers them."""
    first, end = HEADER_SIZE, max(len(packet) - TRAILER_SIZE + 4, HEADER_SIZE + 1)
    damaged = bytearray(packet)
    span = (end - first) * 8
    for position in stream.sample(span, min(bits, span)):
        damaged[first + position // 8] ^= 1 << position % 8
    return bytes(damaged)
