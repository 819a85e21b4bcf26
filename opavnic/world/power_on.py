"""How the HFIs and ports of a world begin, before a subnet manager comes: their descriptions and their P_Keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hfi_sim.base.types import PKEY_DEFAULT, PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT
from hfi_sim.nodes.hfi import Hfi, HfiPort

DESCRIPTIONS: Final = "%h %d"
"""What HFIs say of themselves unless told otherwise: as rdma-ndd and the driver have it, `h1 hfi1_0`."""
_DESCRIPTION_BYTES: Final = 64


def describe(host: str, hfis: Iterable[Hfi], descriptions: str) -> None:
    """Let HFIs say of themselves what those of a booted host say. Args:  descriptions: see `World`."""
    for index, hfi in enumerate(hfis):
        values = {"%h": host, "%d": f"hfi1_{index}", "%n": hfi.name}
        text = "".join(values.get(part, part) for part in re.split("(%[hdn])", descriptions))
        hfi.description = text.encode()[:_DESCRIPTION_BYTES].decode(errors="ignore")


def allow_management(port: HfiPort, allowed: bool) -> None:
    """Say whether a fabric manager may run on a port, where no subnet manager has given it P_Keys yet.

    Source: hfi1, `add_full_mgmt_pkey`: a port whose neighbour switch allows management begins as a full member.
    Fabric managers look for each P_Key at the place that it has there.
    """
    first = (PKEY_DEFAULT, PKEY_LIMITED_MANAGEMENT, *([PKEY_FULL_MANAGEMENT] if allowed else []))
    port.set_pkeys(first)
    port.mgmt_allowed = allowed
