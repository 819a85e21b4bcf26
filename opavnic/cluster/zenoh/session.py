"""Opens a node's Zenoh session."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from opavnic.base.extras import advice
from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.protocol.zenoh_config import SessionPlan, config, to_json5

if TYPE_CHECKING:
    import zenoh

_VARIABLE: Final = "ZENOH_RUNTIME"
_RUNTIMES: Final = "(acc: (handover: rx), net: (handover: rx))"
"""Zenoh's threads: the receiving threads also make connections. Zenoh polls a connection in the threads that made it;
if those were others, each message would wake a second thread.
"""


def open_session(plan: SessionPlan, fabric: int | None, life: int = 0) -> zenoh.Session:
    """Open the session of a plan, for all fabrics if `fabric` is None; see `config`.

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
            # connections to others are made in the background, so this is a failure to listen
            where = f"cannot listen on {', '.join(map(str, plan.listen))}: " if plan.listen else ""
            raise ClusterInputError(f"node {plan.name}: {where}{_first_line(error)}") from None


@contextlib.contextmanager
def _runtimes() -> Iterator[None]:
    """Set Zenoh's threads for the time of the body, unless the user has. Zenoh reads the variable once, and programs on
    hosts do not inherit it.
    """
    if _VARIABLE in os.environ:
        yield
        return
    os.environ[_VARIABLE] = _RUNTIMES
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)


def _first_line(error: Exception) -> str:
    """Return Zenoh's message, without source locations."""
    return re.sub(r" at /\S+:\d+\.?", "", str(error).splitlines()[0] if str(error) else type(error).__name__)
