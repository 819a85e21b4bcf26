"""Looks at a lab for the pages that are open: once for all of them, and not at all while none asks."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, Final

from hfi_sim.base.errors import HfiSimError
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.observe.rates import Sample, rates
from opavnic.web.scene.part_page import PartPage
from opavnic.web.scene.scene import Drawing, Scene, scene

LOOK_S: Final = 1.0
"""How old a look may be that a page is shown."""
TOPOLOGY_S: Final = 30.0
"""How old a topology may be while the status shows no change of it: LIDs of second ports are not in the status."""
HISTORY: Final = 300
"""Looks whose rates are kept for the plots of a VNIC."""
CHANGE_S: Final = 30.0
"""Time limit for a change: a fabric may take a while to find new routes."""

Key = tuple[str, str]
"""Host and interface of a VNIC."""


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
        self._changer = LabClient(control_socket, CHANGE_S)
        self._clock = clock
        self._lock = asyncio.Lock()
        self._scene: Scene | None = None
        self._looked_at = -LOOK_S
        self._drawn: tuple[str, Drawing] | None = None
        self._asked: tuple[object, float, Mapping[str, Any]] | None = None
        self._before: Sample | None = None
        self.history: deque[tuple[float, Mapping[Key, tuple[float, float, float]]]] = deque(maxlen=HISTORY)
        """When (seconds since the Epoch), and bits sent, bits delivered, drops a second of each VNIC."""
        self.mads: deque[tuple[float, float]] = deque(maxlen=HISTORY)
        """When, and MADs a second of all ports."""

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
        status = self._client.get("/status")
        topology, faults = self._topology(status), self._client.get("/faults")
        try:
            sample = Sample.from_status(status)
        except ValueError as error:
            raise LabError(f"the lab was started by another version of opavnic: {error}") from error
        if self._before is None or self._before.pid != sample.pid:  # a lab that was started anew is another
            self._before = sample
            self.history.clear()
            self.mads.clear()
        before = self._before
        seconds = sample.uptime_s - before.uptime_s
        found = rates(before, sample, seconds if seconds > 0 else LOOK_S)
        self._before = sample
        moment = {
            (vnic.host, vnic.interface): (pace.tx_bits, pace.rx_bits, pace.drops)
            for vnic, pace in found.vnics
        }
        when = time.time()
        self.history.append((when, moment))
        self.mads.append((when, found.mads))
        return scene(self._drawing(topology), topology, status, faults, found)

    def _topology(self, status: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the topology: asked for anew only if the status shows a change, and now and then; it is long."""
        seen = (
            status["pid"],
            [(link["name"], link["state"]) for link in status["links"]],
            [(host["name"], host["lid"]) for host in status["hosts"]],
        )
        now = self._clock()
        if self._asked is None or self._asked[0] != seen or now - self._asked[1] >= TOPOLOGY_S:
            self._asked = seen, now, self._client.get("/topology")
        return self._asked[2]

    def _drawing(self, topology: Mapping[str, Any]) -> Drawing:
        text = topology["ibnetdiscover"]
        if self._drawn is None or self._drawn[0] != text:
            self._drawn = text, Drawing.of(topology)
        return self._drawn[1]

    async def get(self, path: str) -> Any:
        """Return the answer to GET `path`. Raises LabError."""
        return await asyncio.to_thread(self._client.get, path)

    def stream(self, path: str) -> HTTPResponse:
        """Return the bytes at `path` as they come. Blocks: to be called in a thread. Raises LabError."""
        return self._client.open(path)

    async def change(self, path: str, body: Mapping[str, Any]) -> str:
        """Ask for a change; return what was wrong with it in a line, or an empty text."""
        try:
            await asyncio.to_thread(self._changer.post, path, body)
        except HfiSimError as error:
            return str(error)
        return ""
