"""A port with a cable: what HFI ports and switch ports have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hfi_sim.base.link_modes import Generation
from hfi_sim.engine.config import End, PortConfig, SwitchPortConfig
from hfi_sim.engine.link.config import Arbitration, Buffers

if TYPE_CHECKING:
    from hfi_sim.nodes.cable import Link


class OfGeneration:
    """An HFI or a switch: its generation follows from what its cables are planned for."""

    cn5000_cables = 0
    """Cables at its ports with lanes that only CN5000 has."""

    @property
    def generation(self) -> Generation:
        """The oldest generation that has the speeds of all its cables."""
        return Generation.CN5000 if self.cn5000_cables else Generation.OPA_100


class LinkPort(ABC):
    """A port that a cable fits into, and how packets leave by that."""

    name: str
    link: Link | None
    _config: PortConfig | SwitchPortConfig

    @property
    @abstractmethod
    def node(self) -> OfGeneration:
        """The HFI or the switch that it belongs to."""

    @property
    @abstractmethod
    def engine_end(self) -> End:
        """The port, as the engine knows it."""

    @abstractmethod
    def speed_changed(self) -> None:
        """Follow the link that now has another rate."""

    @abstractmethod
    def link_changed(self, up: bool) -> None:
        """Notice that the link came up or went down."""

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

    @property
    def arbitration(self) -> Arbitration | None:
        """How VLs share the wire of a link with credits; None: as the link has it."""
        return self._config.egress.arbitration

    @property
    def buffers(self) -> Buffers | None:
        """What VLs may occupy at the far end of a link with credits; None: as the link has it."""
        return self._config.egress.buffers

    @property
    def hoq_codes(self) -> tuple[int, ...]:
        """HOQLife of each of 16 VLs; empty: as the link has it."""
        return self._config.egress.hoq_codes

    def set_arbitration(self, arbitration: Arbitration | None) -> None:
        """Take the tables VLArb; None: VLs share the wire as the link has it.

        Without credits a link has one queue, and nothing to share. Shares used so far are forgotten.
        """
        if arbitration != self.arbitration:
            self._configure(egress=replace(self._config.egress, arbitration=arbitration))

    def set_buffers(self, buffers: Buffers | None) -> None:
        """Take BufferControl: what VLs may occupy at the far end of a link with credits; None: as the link has it.

        What is there already stays, even if it is more. A VL that has nothing there may always send one packet.
        """
        if buffers != self.buffers:
            self._configure(egress=replace(self._config.egress, buffers=buffers))

    def set_hoq_codes(self, codes: Sequence[int]) -> None:
        """Take HOQLife of each of 16 VLs: how long a packet may be the first of its VL at a switch's port; empty: as
        the link has it.

        Raises:  FabricError: another number of VLs.
        """
        if (codes := tuple(codes)) != self._config.egress.hoq_codes:
            self._configure(egress=replace(self._config.egress, hoq_codes=codes))

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
