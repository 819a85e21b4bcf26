"""The place of an Ethernet Manager among those of other machines: master or standby, and which is master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opavnic.base.errors import OpavnicError
from opavnic.world.em_peers import EmPeers
from vema.em.desired.desired import Checked, EmConfig
from vema.em.desired.election import Role
from vema.em.service.service import EthernetService


class ElectionStatus:
    """What the manager here says of itself, and whether it takes a configuration."""

    def __init__(self, em: EthernetService, em_peers: EmPeers, machines: Mapping[int, str]) -> None:
        """Args:  machines: those with a manager, by the GUID of its port."""
        self._em = em
        self._em_peers = em_peers
        self._machines = machines

    @property
    def master(self) -> str | None:
        """The machine with the master, as far as it is known here."""
        election = self._em.election
        return None if election is None else self._machines.get(election.master or 0)

    def status(self) -> dict[str, Any]:
        """Return the role, and the machine with the master; empty where that is not known."""
        return {
            "role": self._em.role.value,
            "machine": self._em_peers.machine,
            "node": self._em_peers.nodes[self._em_peers.machine],
            "master": self.master or "",
        }

    def apply(self, config: EmConfig | Checked) -> None:
        """Apply a configuration here, and have the other managers follow it.

        Raises:  OpavnicError: another manager is the master. EmConfigError, StoreError: as `EthernetService.apply`.
        """
        if self._em.role is not Role.MASTER:
            where = (
                "no master is known yet: try again" if self.master is None else f"apply it on {self.master}"
            )
            raise OpavnicError(f"the Ethernet Manager on {self._em_peers.machine} is a standby: {where}")
        self._em.apply(config)
        self._em_peers.applied(config.config if isinstance(config, Checked) else config)
