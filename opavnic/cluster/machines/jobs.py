"""Jobs that a machine does for others: started at a request, then asked about by their number until they end.

A job belongs to the machine that has started it. It ends when that machine leaves, or has not asked about it for long.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from opavnic.cluster.errors import AskError, ClusterError
from opavnic.cluster.protocol.transport import NodeName
from opavnic.cluster.zenoh.transport import ZenohTransport


class Job(Protocol):
    """What runs here for another machine."""

    owner: NodeName
    asked_at: float
    """Time of the last request about it, on the loop's clock."""

    def close(self) -> None:
        """End it."""


J = TypeVar("J", bound=Job)


class Jobs(Generic[J]):
    """The jobs of one kind that run here."""

    def __init__(self, what: str, forgotten_s: float) -> None:
        """Args: forgotten_s: one about which no request has come for this long ends: its owner may have died."""
        self._what = what
        self._forgotten_s = forgotten_s
        self._running: dict[int, J] = {}
        self._last = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The number of running jobs."""
        return len(self._running)

    def add(self, job: J) -> int:
        """Add a job that has been started; return its number."""
        self._last += 1
        self._running[self._last] = job
        if self._timer is None:
            self._forget()
        return self._last

    def find(self, asker: NodeName, body: Mapping[str, Any]) -> J:
        """Return the job that a request is about. Raises ClusterError: the asker has none with this number."""
        job = self._running.get(int(body.get("number", 0)))
        if job is None or job.owner != asker:
            raise ClusterError(f"{asker} has no {self._what} with number {body.get('number')!r:.40} here")
        return job

    async def keep(self, asker: NodeName, body: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a job alive for an owner that has no room for its data now."""
        self.find(asker, body).asked_at = asyncio.get_running_loop().time()
        return {}

    def remove(self, body: Mapping[str, Any]) -> None:
        """Forget a job that has ended."""
        self._running.pop(int(body["number"]), None)

    def lost(self, owner: NodeName) -> None:
        """End the jobs of a machine that has left."""
        self._end([number for number, job in self._running.items() if job.owner == owner])

    def close(self) -> None:
        """End all jobs."""
        if self._timer is not None:
            self._timer.cancel()
        self._end(list(self._running))

    def _end(self, numbers: list[int]) -> None:
        for number in numbers:
            self._running.pop(number).close()

    def _forget(self) -> None:
        """End jobs without recent requests; repeat while any run."""
        loop = asyncio.get_running_loop()
        since = loop.time() - self._forgotten_s
        self._end([number for number, job in self._running.items() if job.asked_at < since])
        self._timer = loop.call_later(self._forgotten_s / 4, self._forget) if self._running else None


class RemoteJob:
    """A job on another machine, as its owner sees it. Verbs are those of the job and what is asked: `exec-more`."""

    def __init__(self, transport: ZenohTransport, machine: NodeName, verb: str, number: int) -> None:
        self._transport = transport
        self._machine = machine
        self._verb = verb
        self._number = number
        self._is_over = False

    @property
    def where(self) -> str:
        """The machine that it runs on."""
        return str(self._machine)

    async def _ask(self, what: str, timeout_s: float = 10.0, **body: Any) -> dict[str, Any]:
        question = {"number": self._number, **body}
        return await self._transport.ask(self._machine, f"{self._verb}-{what}", question, timeout_s=timeout_s)

    async def keep(self) -> None:
        """Keep it alive without asking for its data."""
        with contextlib.suppress(AskError):  # `more` reports one that has ended
            await self._ask("keep")

    async def end(self) -> None:
        """End it, if it runs."""
        if not self._is_over:
            with contextlib.suppress(AskError):
                await self._ask("end", timeout_s=5.0)
