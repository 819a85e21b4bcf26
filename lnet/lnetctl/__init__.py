"""The lnetctl commands on one node, without the command line: arguments in as text, the printed documents out.

A command raises CommandError where the real tool would print an errno and fail.
"""

from __future__ import annotations

from typing import Final

from lnet.lnetctl.commands import Document, OwnerOf, no_owner
from lnet.lnetctl.whole import Lnetctl

__all__ = ["COMMANDS", "Document", "Lnetctl", "OwnerOf", "no_owner"]


COMMANDS: Final = frozenset(
    {
        "export_yaml",
        "global_show",
        "import_yaml",
        "lnet_configure",
        "lnet_unconfigure",
        "net_add",
        "net_del",
        "net_set",
        "net_show",
        "net_status",
        "o2ibs_add",
        "o2ibs_check",
        "o2ibs_del",
        "o2ibs_show",
        "peer_add",
        "peer_del",
        "peer_list",
        "peer_set",
        "peer_show",
        "remove_yaml",
        "route_show",
        "routing_show",
        "set_value",
        "show_yaml",
        "stats_reset",
        "stats_show",
    }
)
"""Methods of Lnetctl that the control API may call."""
