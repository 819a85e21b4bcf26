"""Opens a node's Zenoh session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opavnic.base.extras import advice
from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.protocol.zenoh_config import SessionPlan, config, to_json5

if TYPE_CHECKING:
    import zenoh


def open_session(plan: SessionPlan, fabric: int | None, life: int = 0) -> zenoh.Session:
    """Open the session of a plan, for all fabrics if `fabric` is None; see `config`.

    Raises:  ClusterError: Zenoh is not installed. ClusterInputError: the session cannot listen.
    """
    try:
        import zenoh
    except ImportError:
        raise ClusterError(f"a fabric over several machines needs Zenoh: {advice('cluster')}") from None
    try:
        return zenoh.open(zenoh.Config.from_json5(to_json5(config(plan, fabric, life))))
    except zenoh.ZError as error:
        # connections to others are made in the background, so this is a failure to listen
        where = f"cannot listen on {', '.join(map(str, plan.listen))}: " if plan.listen else ""
        raise ClusterInputError(f"node {plan.name}: {where}{_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    """Return Zenoh's message, without source locations."""
    return re.sub(r" at /\S+:\d+\.?", "", str(error).splitlines()[0] if str(error) else type(error).__name__)
