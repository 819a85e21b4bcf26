"""Opens a node's Zenoh session."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.zenoh_config import SessionPlan, config, to_json5
from opavnic.extras import advice

if TYPE_CHECKING:
    import zenoh

_VARIABLE: Final = "ZENOH_RUNTIME"
_RUNTIMES: Final = "(acc: (handover: rx), net: (handover: rx))"
"""Threads that Zenoh has: those that receive also make connections. It watches each connection in the threads that made
it, and would have others to wake for every message."""


def open_session(plan: SessionPlan, fabric: int | None, life: int = 0) -> zenoh.Session:
    """Open the session that a plan asks for; unknown fabric: any. See `config`.

    Raises:  ClusterError: Zenoh is not installed. ClusterInputError: the session cannot listen.
    """
    with _runtimes():
        try:
            import zenoh
        except ImportError:
            raise ClusterError(f"a fabric over several machines needs Zenoh: {advice('cluster')}") from None
        try:
            return zenoh.open(zenoh.Config.from_json5(to_json5(config(plan, fabric, life))))
        except zenoh.ZError as error:
            # connections to others are made in the background, so it is listening that has failed
            where = f"cannot listen on {', '.join(map(str, plan.listen))}: " if plan.listen else ""
            raise ClusterInputError(f"node {plan.name}: {where}{_first_line(error)}") from None


@contextlib.contextmanager
def _runtimes() -> Iterator[None]:
    """Say which threads Zenoh has, unless the user does. It reads that once, and programs on hosts need not see it."""
    if _VARIABLE in os.environ:
        yield
        return
    os.environ[_VARIABLE] = _RUNTIMES
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)


def _first_line(error: Exception) -> str:
    """Return what Zenoh says, without the places in its source."""
    return re.sub(r" at /\S+:\d+\.?", "", str(error).splitlines()[0] if str(error) else type(error).__name__)
