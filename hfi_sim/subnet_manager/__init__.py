"""The subnet manager of a fabric, and its subnet administration."""

from __future__ import annotations

from hfi_sim.subnet_manager.manager import MAX_LMC, NoticeKind, Routing, SmNotice, SubnetManager

__all__ = ["MAX_LMC", "NoticeKind", "Routing", "SmNotice", "SubnetManager"]
