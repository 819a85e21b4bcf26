"""The work of a load balancer that is due, all at once: tests let no frame pass between its two halves."""

from __future__ import annotations

from ejfat.control.balancer import ReservedInstance
from ejfat.control.plane import ControlPlane
from ejfat.tables.schema import Update


def advance(balancer: ReservedInstance, now: float) -> list[Update]:
    """Do the due work of one instance."""
    return balancer.prepare(now) + balancer.connect(now)


def advance_all(plane: ControlPlane, now: float) -> None:
    """Do the due work of all instances."""
    plane.prepare(now)
    plane.connect(now)
