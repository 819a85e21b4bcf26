"""Events of HFI ports, and what handles them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hfi_sim.base.port_state import PortEventKind

if TYPE_CHECKING:
    from hfi_sim.nodes.hfi import HfiPort


@dataclass(frozen=True, slots=True)
class PortEvent:
    """One event of one port."""

    kind: PortEventKind
    port: HfiPort


PortEventHandler = Callable[[PortEvent], None]
