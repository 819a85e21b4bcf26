"""How packets leave by a link: what HFI ports and switch ports have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from hfi_sim.engine.config import PortConfig, SwitchPortConfig

Config = TypeVar("Config", PortConfig, SwitchPortConfig)


class EgressPort(ABC, Generic[Config]):
    """A port with a cable."""

    _config: Config

    @abstractmethod
    def _configure(self, **changes: object) -> None:
        """Change the configuration, and tell the engine."""

    @property
    def sc_to_vl(self) -> tuple[int, ...]:
        """The table SC2VLt; empty: as the link has it."""
        return self._config.egress.sc_to_vl

    @property
    def vl_mtus(self) -> tuple[int, ...]:
        """The MTU of each of 16 VLs, in bytes; empty: no limits."""
        return self._config.egress.vl_mtus

    def set_sc_to_vl(self, table: Sequence[int]) -> None:
        """Take a table SC2VLt: the VL of each of the 32 service channels; an empty one: as the link has it.

        Raises:  FabricError: another number of entries, a VL that is not 0 to 15.
        """
        self._configure(egress=replace(self._config.egress, sc_to_vl=tuple(table)))

    def set_vl_mtus(self, mtus: Sequence[int]) -> None:
        """Take the MTU of each of 16 VLs, in bytes (`MTU_HEADROOM`); 0: nothing leaves on it. Empty: no limits.

        Raises:  FabricError: another number of VLs, an MTU beyond 10240.
        """
        self._configure(egress=replace(self._config.egress, vl_mtus=tuple(mtus)))
