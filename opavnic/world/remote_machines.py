"""What the parts of a world ask of the machines that carry the rest of its fabric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from hfi_sim.nodes.cable import LinkDirection
from opavnic.world.fabric_views import FabricView, Model


class RemoteCapture(Protocol):
    """A capture on another machine."""

    @property
    def where(self) -> str:
        """The machine."""

    async def more(self) -> bytes | None:
        """Wait for more of its pcapng file; return None at the end, and b"" where there is nothing yet."""

    async def keep(self) -> None:
        """Keep the program alive without reading; `more` will be called later."""

    async def end(self) -> None:
        """Capture no more; `more` returns what is left."""


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

    async def captures(
        self, ways: Iterable[LinkDirection], query: Mapping[str, str]
    ) -> tuple[list[RemoteCapture], dict[str, str]]:
        """Capture on the machines where some directions begin.

        Returns: captures, and why there is none on a machine that refuses.
        """
