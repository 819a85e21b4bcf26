"""The Ethernet Managers of a fabric of several machines, as the one on this machine knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from vema.em.desired.desired import EmConfig
from vema.em.service.service import EthernetService


class EmPeers(Protocol):
    """All machines of a fabric that have an Ethernet Manager, this one among them."""

    @property
    def machine(self) -> str:
        """This machine."""

    @property
    def nodes(self) -> Mapping[str, str]:
        """The node on whose first port the manager of each machine is: `em`, or a host; the best candidate first."""

    @property
    def config(self) -> EmConfig | None:
        """The newest configuration that was applied on any of them; None: that of the lab file."""

    def applied(self, config: EmConfig) -> None:
        """Have the others follow a configuration that was applied here."""

    def enter(self, em: EthernetService) -> None:
        """Let a manager that has started here follow what is applied elsewhere."""
