"""The audit: checks that MAC tables match their digests, reading one table after the other, slowly and continuously.

Polling VeswPortInfo compares only digests, and an agent stores the digest that the EM wrote last. If the fabric
duplicates and delays a Set, the copy may arrive between two Sets of a later update: then an old section has the right
digest, and polling never notices. So the audit reads the sections themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.wire.mad.header import Mad
from vema.attributes.mac_entries import MacEntries
from vema.base.errors import AgentError
from vema.em.core.dialogue import Request, request_for
from vema.em.core.state import ManagedVesw, Port, Vport
from vema.em.core.steps import SERVED, Step
from vema.em.desired.mac_tables import EMPTY, ENTRY, SECTIONS, digest_of, section_key, section_range
from vema.em.store.persisted import VportKey

MIN_STEP_S: Final = 0.02
"""Minimum time between two Gets of the audit, regardless of the number of tables: at most 50 per second."""


@dataclass(slots=True)
class _Reading:
    """One table that is being read."""

    key: VportKey
    digest: int
    """The agent's digest; if it changes during the reading, the table is being changed."""
    keys: list[int] = field(default_factory=list)
    """Keys of the sections read so far."""
    entries: list[bytes] = field(default_factory=list)
    asked: bool = False
    """Whether a Get is in flight."""


class Audit:
    """Reads every table once per interval: decides when to send which Get, and evaluates the responses."""

    def __init__(self, interval: float, *, now: float) -> None:
        """Start the first round one interval from now.

        Args:  interval: duration of a round in seconds; 0: no audit.
        """
        self._waiting: deque[VportKey] = deque()
        self._reading: _Reading | None = None
        self._due = False
        self._step = 0.0
        self.restart(interval, now=now)

    def restart(self, interval: float, *, now: float) -> None:
        """Start again, with another interval or after this EM was idle."""
        self._interval = interval
        self._at = now + interval
        self._waiting.clear()
        self._reading, self._due = None, False

    @property
    def is_reading(self) -> bool:
        """Whether the reading of a table has begun and not finished."""
        return self._reading is not None

    def next_wake(self) -> float | None:
        """Return when `wake` is due, or None."""
        return self._at if self._interval else None

    def wake(
        self, now: float, ports: Mapping[int, Port], vesws: Mapping[int, ManagedVesw]
    ) -> VportKey | None:
        """Return the vport to read from if a Get is due, else None; `request` then returns the Get."""
        if not self._interval or now < self._at:
            return None
        reading = self._reading
        if reading is not None and reading.asked:
            port = ports.get(reading.key[0])
            vport = None if port is None else port.vports.get(reading.key[1])
            if vport is not None and vport.busy:
                self._at = now + self._step
                return None
        if reading is None or reading.asked or not _idle(ports, reading.key):
            reading = self._next(ports, vesws)  # an interrupted table is read in the next round
        self._reading, self._due = reading, reading is not None
        self._at = now + self._step
        return None if reading is None else reading.key

    def _next(self, ports: Mapping[int, Port], vesws: Mapping[int, ManagedVesw]) -> _Reading | None:
        """Start reading the next table that can be read now."""
        if not self._waiting:
            self._waiting.extend(_tables(ports, vesws))
            gets = len(self._waiting) * SECTIONS
            self._step = max(self._interval / gets, MIN_STEP_S) if gets else self._interval
        while self._waiting:
            key = self._waiting.popleft()
            if _idle(ports, key):
                return _Reading(key, ports[key[0]].vports[key[1]].digest)
        return None

    def request(self, port: Port, vport: Vport) -> Request | None:
        """Return the Get of the next section if it is the turn of this vport, else None."""
        reading = self._reading
        if not self._due or reading is None or reading.key != vport.key:
            return None
        self._due = False
        if reading.digest != vport.digest:
            self._reading = None
            return None
        reading.asked = True
        index = len(reading.keys)
        page = MacEntries.HEADER.codec.pack(*section_range(index), 0)
        return request_for(port, vport.num, Step.AUDIT, page, section=index)

    def take(self, vport: Vport, request: Request, mad: Mad) -> list[int]:
        """Handle a section; at the end of a table that does not match its digest, return the wrong sections.

        The vport is then updated to what its agent really has, so that the differences are sent again.

        Raises:  AgentError, WireError: the agent refuses, or its response is invalid.
        """
        reading = self._reading
        if reading is None or reading.key != vport.key or len(reading.keys) != request.section:
            return []
        reading.asked = False
        try:
            digest, section = _section_of(request, mad)
        except (AgentError, WireError):
            self._reading = None
            raise
        if not digest == reading.digest == vport.digest:
            self._reading = None
            vport.fresh = vport.fresh and digest == vport.digest
            return []
        reading.keys.append(section_key(section))
        if reading.keys[-1] != EMPTY:
            reading.entries += [section[at : at + ENTRY.size] for at in range(0, len(section), ENTRY.size)]
        if len(reading.keys) < SECTIONS:
            return []
        self._reading = None
        return _judge(vport, reading)


def _tables(ports: Mapping[int, Port], vesws: Mapping[int, ManagedVesw]) -> Iterator[VportKey]:
    for port in ports.values():
        for vport in port.vports.values():
            if port.in_service and vport.vesw_id in vesws:
                yield vport.key


def _idle(ports: Mapping[int, Port], key: VportKey) -> bool:
    """Return whether a vport is reachable and fully configured, with no request in flight."""
    port = ports.get(key[0])
    vport = None if port is None else port.vports.get(key[1])
    if port is None or vport is None or port.life is not SERVED or not port.ready:
        return False
    return vport.done and not vport.busy


def _section_of(request: Request, mad: Mad) -> tuple[int, bytes]:
    """Return the digest and the entries in a response. Raises AgentError or WireError as `Audit.take` does."""
    data = request.answered_by(mad)
    first, count, digest = MacEntries.HEADER.unpack(data)
    section = data[MacEntries.HEADER.size :][: count * ENTRY.size]
    if (first, count) != section_range(request.section) or len(section) < count * ENTRY.size:
        raise AgentError(f"MacEntries: {count} entries from {first} were not requested")
    return digest, section


def _judge(vport: Vport, reading: _Reading) -> list[int]:
    """Compare a whole table with its digest; set the layout of the vport to what was read."""
    while reading.keys and reading.keys[-1] == EMPTY:
        reading.keys.pop()
    believed, vport.layout = vport.layout, tuple(reading.keys)
    if digest_of(reading.entries) == reading.digest:
        return []
    vport.damaged = True
    length = max(len(believed or ()), len(reading.keys))
    if believed is None:
        return list(range(length))
    pad = (EMPTY,) * length
    pairs = zip((believed + pad)[:length], (vport.layout + pad)[:length], strict=True)
    return [index for index, (was, found) in enumerate(pairs) if was != found]
