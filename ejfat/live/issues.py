"""What a control plane says is wrong with a reservation, for the text forms of programs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ejfat.base.errors import EjfatError
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.events.uri import EjfatUri
from ejfat.live.feedback import call, channel_to

LOOK_S: Final = 1.2
"""Seconds between two looks: a control plane evaluates its counters each second."""
_PATIENCE_S: Final = 3.0
"""Seconds that a control plane may take to answer."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One health issue of a reservation or of one of its workers."""

    kind: str
    severity: str
    message: str
    quiet_s: float | None
    """Seconds since its cause was seen last; None: it is there."""

    def began_before(self, elapsed_s: float) -> bool:
        """Return whether its cause was seen last before the last `elapsed_s` seconds."""
        return self.quiet_s is not None and self.quiet_s > elapsed_s

    def __str__(self) -> str:
        ago = f" ({self.quiet_s:.0f} s ago)" if self.quiet_s is not None and self.quiet_s >= 1 else ""
        return f"{self.severity} {self.kind}: {self.message}{ago}"


def troubles(status: pb.LoadBalancerStatusReply, worker: str | None = None) -> list[Trouble]:
    """Return the issues of a reservation and of its workers, or of the workers with one name."""
    workers = (row for row in status.workers if worker in (None, row.name))
    found = [*status.healthIssues, *(issue for row in workers for issue in row.healthIssues)]
    return [Trouble(issue.type, issue.severity, issue.message, _quiet(issue)) for issue in found]


def _quiet(issue: pb.HealthIssue) -> float | None:
    value = issue.details.fields.get("quiet_s")
    return None if value is None else value.number_value


@dataclass(slots=True)
class IssueWatch:
    """Follows the issues of a reservation while a program works with it, and says each of them once."""

    uri: EjfatUri
    say: Callable[[str], None]
    control: str = ""
    ca: Path | None = None
    settles: bool = False
    """Whether to wait at the end for what the control plane finds of the last packets."""
    found: dict[tuple[str, str], Trouble] = field(default_factory=dict)
    """All that were there, by kind and severity."""
    _known: bool = False
    """Whether the control plane has answered the last question."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look again and again, and once at the end; a control plane that does not answer is not asked again."""
        began = asyncio.get_running_loop().time()
        async with channel_to(self.uri, self.control, self.ca) as channel:
            stub = pb_grpc.LoadBalancerStub(channel)
            task = asyncio.create_task(self._follow(stub, began))
            try:
                yield
                if self.settles:
                    await asyncio.wait((task,), timeout=LOOK_S)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            if self._known:
                await self._look(stub, began)

    async def _follow(self, stub: pb_grpc.LoadBalancerStub, began: float) -> None:
        while True:
            await self._look(stub, began)
            if not self._known and not self.found:
                return
            await asyncio.sleep(LOOK_S)

    async def _look(self, stub: pb_grpc.LoadBalancerStub, began: float) -> None:
        """Ask for the issues, and say those that are new."""
        question = pb.LoadBalancerStatusRequest(lbId=self.uri.lb_id)
        self._known = False
        with contextlib.suppress(EjfatError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                status: Any = await call(stub.LoadBalancerStatus, question, self.uri.token)
            self._known = True
            elapsed = asyncio.get_running_loop().time() - began
            for trouble in troubles(status):
                if trouble.began_before(elapsed):
                    continue
                key = trouble.kind, trouble.severity
                if key not in self.found:
                    self.say(f"control plane: {trouble}")
                self.found[key] = trouble
