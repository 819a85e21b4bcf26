"""Looks at a lab for the pages that are open: once for all of them, and not at all while none asks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from hfi_sim.base.errors import HfiSimError, WireError
from hfi_sim.fabric.notices import TracedPacket
from hfi_sim.fabric.topology.ibnet import loads
from hfi_sim.fabric.topology.model import Topology
from opavnic.lab.ownership.client import LabClient, Model
from opavnic.observe.capture_copy import NUMBER_HEADER
from opavnic.observe.rates import Meter, Paces, Rates
from opavnic.observe.trace_file import TraceReader
from opavnic.state.fabric import FaultsSet, TopologyState
from opavnic.state.lab import LabState
from opavnic.web.scene.part_page import PartPage
from opavnic.web.scene.scene import Scene, scene

LOOK_S: Final = 1.0
"""How old a look may be that a page is shown."""
TOPOLOGY_S: Final = 30.0
"""How old a topology may be while the status shows no change of it: LIDs of second ports are not in the status."""
GAP_S: Final = 10.0
"""Looks further apart say nothing of the time between them, as while no page was open."""
HISTORY: Final = 300
"""Looks whose rates are kept for the plots of a VNIC."""
TOTALS_KEPT: Final = 10_000
"""Looks whose rates of the lab as a whole are kept, for the timeline: almost three hours of looking."""
TOTALS: Final = {"delivered to VNICs": "bit/s", "drops": "packets/s", "MADs": "MADs/s"}
"""Rates of a lab as a whole, with their units."""

Key = tuple[str, str]
"""Host and interface of a VNIC."""


def totals(found: Rates) -> dict[str, float]:
    """Return the rates of a lab as a whole, by the names of TOTALS."""
    delivered = sum(paces["rx_bytes"] for _, _, paces in found.vnics)
    dropped = sum(drop.per_second for drop in found.drops)
    return dict(zip(TOTALS, (delivered, dropped, found.mads), strict=True))


class Watch:
    """One lab as its pages see it. Methods are coroutines of one event loop; the lab is asked in threads."""

    def __init__(
        self,
        control_socket: Path,
        clock: Callable[[], float] = time.monotonic,
        part_pages: Sequence[PartPage] = (),
    ) -> None:
        """Args:  control_socket: of the lab. clock: seconds, for the age of a look. part_pages: about its parts."""
        self.part_pages = part_pages
        self._client = LabClient(control_socket)
        self._clock = clock
        self._lock = asyncio.Lock()
        self._scene: Scene | None = None
        self._looked_at = -LOOK_S
        self._parsed: tuple[str, Topology] | None = None
        self._asked: tuple[object, float, TopologyState] | None = None
        self._meter = Meter()
        self._pid = 0
        self.history: deque[tuple[float, Mapping[Key, Paces]]] = deque(maxlen=HISTORY)
        """When (seconds since the Epoch), and the growth of the counters of each VNIC."""
        self.totals: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=TOTALS_KEPT)
        """When, and the rates of the lab as a whole, by the names of TOTALS."""

    async def look(self, *, fresh: bool = False) -> Scene:
        """Return what is to be seen now. Pages that ask within LOOK_S share a look.

        Args:    fresh: look now, as after a change.
        Raises:  LabError: the lab does not answer, has ended, or is of another version.
        """
        async with self._lock:
            if self._scene is None or fresh or self._clock() - self._looked_at >= LOOK_S:
                self._scene = await asyncio.to_thread(self._look)
                self._looked_at = self._clock()
            return self._scene

    def _look(self) -> Scene:
        state = self._client.read(LabState, "/status")
        fabric, faults = self._topology(state), self._client.read(FaultsSet, "/faults")
        is_new = self._pid != state.pid  # a lab that was started anew is another
        if is_new:
            self._pid = state.pid
            self.history.clear()
            self.totals.clear()
        found = self._meter.take(state)
        moment = {(host.name, vnic.interface): paces for host, vnic, paces in found.vnics}
        when = time.time()
        if not is_new and found.seconds <= GAP_S:  # a first look knows no rates, one after a gap none of now
            self.history.append((when, moment))
            self.totals.append((when, totals(found)))
        return scene(self._read_topology(fabric), fabric, faults, found)

    def _topology(self, state: LabState) -> TopologyState:
        """Return the topology: asked for anew only if the status shows a change, and now and then; it is long."""
        seen = (
            state.pid,
            [(link.name, link.state) for link in state.links],
            [(host.name, host.lid) for host in state.hosts],
        )
        now = self._clock()
        if self._asked is None or self._asked[0] != seen or now - self._asked[1] >= TOPOLOGY_S:
            self._asked = seen, now, self._client.read(TopologyState, "/topology")
        return self._asked[2]

    def _read_topology(self, fabric: TopologyState) -> Topology:
        text = fabric.ibnetdiscover
        if self._parsed is None or self._parsed[0] != text:
            self._parsed = text, loads(text)
        return self._parsed[1]

    @property
    def topology(self) -> Topology:
        """The fabric as it was looked at last; empty before the first look."""
        return self._parsed[1] if self._parsed is not None else Topology()

    async def get(self, path: str) -> Any:
        """Return the answer to GET `path`, for the page of a part. Raises LabError."""
        return await asyncio.to_thread(self._client.get, path)

    async def read(self, model: type[Model], path: str) -> Model:
        """Return the state at `path`. Raises LabError."""
        return await asyncio.to_thread(self._client.read, model, path)

    def stream(self, path: str) -> HTTPResponse:
        """Return the bytes at `path` as they come. Blocks: to be called in a thread. Raises LabError."""
        return self._client.open(path)

    async def packets(self, query: Mapping[str, str], seconds: float) -> list[TracedPacket]:
        """Return what enters links from now on.

        Args:    query: of GET /capture. seconds: when the capture ends, if it has not been ended by its count.
        Raises:  LabError: the lab refuses the capture, or has ended.
        """
        stream = await asyncio.to_thread(self.stream, "/capture?" + urlencode(query))
        number = int(stream.headers[NUMBER_HEADER])
        found: list[TracedPacket] = []

        def read() -> None:
            with contextlib.suppress(
                WireError, HTTPException, OSError
            ):  # the lab has ended: what came is shown
                found.extend(TraceReader(stream).records())

        reading = asyncio.ensure_future(asyncio.to_thread(read))
        try:
            if not (await asyncio.wait({reading}, timeout=seconds))[0]:
                await self.change("/capture/end", {"number": number})
            await reading
        finally:
            stream.close()
        return found

    async def change(self, path: str, body: Mapping[str, Any]) -> str:
        """Ask for a change; return what was wrong with it in a line, or an empty text."""
        try:
            await asyncio.to_thread(self._client.post, path, body)
        except HfiSimError as error:
            return str(error)
        return ""
