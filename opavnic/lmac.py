"""The locally administered MAC address of a VNIC; the codec is on the floor below, where the EM uses it too."""

from __future__ import annotations

from vema.lmac import GROUP_BIT, LOCAL_BIT, Lmac, lid_of

__all__ = ["GROUP_BIT", "LOCAL_BIT", "Lmac", "lid_of"]
