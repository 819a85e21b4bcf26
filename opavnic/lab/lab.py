"""The lab and its changes, under the names that programs import."""

from __future__ import annotations

from opavnic.lab.change.live import LivingLab
from opavnic.lab.run.lab import Lab

__all__ = ["Lab", "LivingLab"]
