"""The lab, under the name that programs import."""

from __future__ import annotations

from opavnic.lab.run.lab import Lab

__all__ = ["Lab"]
