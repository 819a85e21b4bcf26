"""Law: no wrong byte is handed over, and what was sent is handed over or counted as lost, by name."""

from __future__ import annotations

from typing import Any

import pytest

from ejfat.events import stream
from ejfat.events.event import ReassemblyCounters
from ejfat.events.reassembly import Reassembler
from ejfat.events.stream import Fate, PacketStream, Parts, Segment, StreamEvent
from unit.ejfat.reassembly_oracle import Verdict, play

FORMS = ("1", "1+lb", "2", "2+lb", "3+lb")


def campaign(seeds: range) -> Verdict:
    """Return the sum of cases; the form goes round."""
    total = Verdict()
    for seed in seeds:
        total += play(seed, FORMS[seed % len(FORMS)])
    return total


def check(total: Verdict) -> None:
    print(
        f"{total.sent} events sent, {total.seen} seen, {total.handed} handed over; lost {dict(total.lost)}; packets "
        f"thrown away {dict(total.thrown)}; {total.forged} forged; restarts {dict(total.restarts)}"
    )
    assert not total.wrong, total.wrong[:5]
    assert all(total.restarts[kind] for kind in ("pause", "distance", "other bytes", "other lengths"))
    assert total.handed > total.seen / 2


def test_what_is_sent_is_handed_over_right_or_counted_as_lost() -> None:
    total = campaign(range(500))
    total += play(107, "1")  # with late packets of a lost event, of which there are few
    check(total)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_what_is_sent_is_handed_over_right_or_counted_as_lost_in_100000_cases(part: int) -> None:
    check(campaign(range(10_000 * part, 10_000 * (part + 1))))


def without_port(self: Reassembler, source: Any, data_id: int) -> PacketStream:
    key = source[0], data_id
    return self._streams.get(key) or PacketStream(source[0], data_id, self._timeout_s)


def only_in_order(self: Parts, offset: int, data: bytes) -> int:
    return 0 if offset >= self.end else len(data)


def deaf(self: PacketStream, segment: Segment, now: float) -> Fate:
    if segment.first:
        return Fate.BEGIN
    latest = self.latest
    return Fate.ORPHAN if latest is None or latest.has_ended else Fate.PART


def never(*_: Any, **__: Any) -> None:
    return None


SABOTAGES: dict[str, tuple[object, str, Any]] = {
    "the port is no part of the stream": (Reassembler, "_stream", without_port),
    "a number never begins again": (PacketStream, "is_recent", lambda *_: True),
    "a number begins again at once": (PacketStream, "is_recent", lambda *_: False),
    "by time alone": (stream, "WINDOW", 1 << 60),
    "by distance alone": (
        PacketStream,
        "is_recent",
        lambda self, event, now: self.begun - event.ordinal < stream.WINDOW,
    ),
    "a number begins again only then, whatever the bytes are": (StreamEvent, "agrees", lambda *_: True),
    "contradictions are not seen": (Parts, "known", only_in_order),
    "version 1: nothing is remembered of earlier events": (PacketStream, "fate", deaf),
    "version 1: no doubt about late packets": (PacketStream, "doubts", lambda *_: False),
    "another event of a number is thrown away in silence": (Reassembler, "_lose_rival", never),
    "losses are not counted": (ReassemblyCounters, "lose", never),
}


@pytest.mark.parametrize("what", SABOTAGES)
def test_law_of_reassembly_is_broken_by(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, instead = SABOTAGES[what]
    monkeypatch.setattr(owner, name, instead)
    for seed in range(2000):
        if play(seed, FORMS[seed % len(FORMS)]).wrong:
            return
    pytest.fail("no case notices it")
