"""Opens a node's Zenoh session."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, Final

from opavnic.base.packages import advice
from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.protocol.zenoh_config import Address, SessionPlan, config

if TYPE_CHECKING:
    import zenoh

LOOK_S: Final = 1.0
"""Time limit for connecting to a machine that did not answer, for the error message."""


def check_zenoh() -> None:
    """Check that Zenoh is installed, before anything else is said. Raises ClusterError."""
    try:
        import zenoh  # noqa: F401
    except ImportError as error:
        raise ClusterError(
            f"a fabric over several machines needs Zenoh ({error}): {advice('cluster')}"
        ) from error


def open_session(plan: SessionPlan, epoch: int) -> zenoh.Session:
    """Open the session of a plan; that of a member has a link then. Blocks. See `config`.

    Raises:  ClusterError: no coordinator answers. ClusterInputError: it cannot listen.
    """
    import zenoh

    zenoh.try_init_log_from_env()  # RUST_LOG then shows, for example, what access control refuses
    try:
        return zenoh.open(zenoh.Config.from_json5(json.dumps(config(plan, epoch))))
    except zenoh.ZError as error:
        if plan.join:
            raise ClusterError(
                f"node {plan.name}: no coordinator answers at {', '.join(map(_said_of, plan.join))}: does `opavnic up "
                "--cluster` run there, are the credentials from the same CA, and is the time of day right on both?"
            ) from None
        where = ", ".join(map(str, plan.listen))
        raise ClusterInputError(f"node {plan.name}: cannot listen on {where}: {_first_line(error)}") from None


def _said_of(address: Address) -> str:
    """Return an address that gave no answer, with the reason as far as known, for a person. Blocks for up to LOOK_S."""
    try:
        with socket.create_connection((address.host.strip("[]"), address.port), LOOK_S):
            return f"{address} (the port is open)"
    except OSError as error:
        return f"{address} ({error.strerror or 'no answer'})"


def _first_line(error: Exception) -> str:
    """Return Zenoh's message, without source locations."""
    return re.sub(r" at /\S+:\d+\.?", "", str(error).splitlines()[0] if str(error) else type(error).__name__)
