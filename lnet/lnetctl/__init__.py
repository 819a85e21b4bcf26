"""The lnetctl commands on one node, without the command line: arguments in as text, the printed documents out.

A command raises CommandError where the real tool would print an errno and fail.
"""

from __future__ import annotations

from typing import Final

from lnet.lnetctl.commands import Document, OwnerOf, no_owner
from lnet.lnetctl.whole import Lnetctl

__all__ = ["COMMANDS", "Document", "Lnetctl", "OwnerOf", "no_owner"]

COMMANDS: Final = frozenset(
    name
    for kind in (*Lnetctl.__bases__, Lnetctl)
    for name in vars(kind)
    if not name.startswith("_") and name != "start"
)
"""Methods of Lnetctl that the control API may call."""
