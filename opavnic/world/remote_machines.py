"""What the parts of a world ask of the machines that carry the rest of its fabric."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, UnixConnector

from hfi_sim.nodes.cable import LinkDirection
from opavnic.base.errors import OpavnicError
from opavnic.observe.capture_copy import NUMBER_HEADER
from opavnic.world.fabric_views import FabricView, Model

log = logging.getLogger("opavnic.world")


@dataclass(frozen=True, slots=True)
class RemoteControl:
    """The control API of another machine."""

    machine: str
    socket: Path
    ahead_s: float
    """Seconds by which its clock is ahead of this machine's."""


class RemoteCapture:
    """A capture on another machine."""

    def __init__(self, where: str, session: ClientSession, response: ClientResponse) -> None:
        self.where = where
        self._session = session
        self._response = response

    @classmethod
    async def start(cls, control: RemoteControl, query: Mapping[str, str]) -> Self:
        """Capture what begins on another machine. Raises OpavnicError: it refuses, or does not answer."""
        session = ClientSession(
            "http://lab", connector=UnixConnector(str(control.socket)), timeout=ClientTimeout(total=None)
        )
        asked = {**query, "here": "1", "ahead": str(control.ahead_s)}
        try:
            response = await session.get("/capture", params=asked)
            if response.status != 200:
                raise OpavnicError(str((await response.json())["error"]))
        except (ClientError, OSError) as error:
            await session.close()
            raise OpavnicError(f"machine {control.machine}: {error}") from error
        except BaseException:
            await session.close()
            raise
        return cls(control.machine, session, response)

    async def more(self) -> bytes:
        """Wait for more of its pcapng file; return b"" at the end."""
        try:
            return await self._response.content.readany()
        except (ClientError, OSError) as error:
            log.warning("the capture on %s has ended: %s", self.where, error)
            return b""

    async def end(self) -> None:
        """Capture no more; `more` returns what is left."""
        number = int(self._response.headers[NUMBER_HEADER])
        try:
            async with self._session.post("/capture/end", json={"number": number}):
                pass
        except (ClientError, OSError) as error:
            log.info("the capture on %s was not ended: %s", self.where, error)

    async def close(self) -> None:
        """Read no more."""
        await self._session.close()


class RemoteMachines(Protocol):
    """The other machines of a fabric."""

    async def change_faults(self, change: Mapping[str, Any]) -> int | None:
        """Make a change of faults on all machines, this one included: `add` a text, or `remove` a number or None.

        Returns: the number of the fault that was set.
        Raises:  HfiSimError: it is refused, or a machine does not do it.
        """

    async def look(self, view: FabricView[Model], query: Mapping[str, str]) -> Model:
        """Return a view of the whole fabric.

        Raises:  HfiSimError: the query is wrong, or its machine does not answer.
        """

    def controls(self, ways: Iterable[LinkDirection]) -> list[RemoteControl]:
        """Return the control APIs of the machines where some directions begin."""
