"""Guests that are network namespaces, by the names that `ip netns` lists, or by path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hfi_sim.base.did_you_mean import nearest
from opavnic.lab.file.errors import LabError, PrivilegeError
from opavnic.lab.hosts.guests.guest import Guest, GuestKind, held
from opavnic.lab.ownership.namespaces import NETNS_DIR

if TYPE_CHECKING:
    from opavnic.lab.file.guest_model import GuestKeys

_OWN_PREFIX: Final = "opavnic-"
"""Prefix of the namespaces that labs make; a guest cannot be one of them."""


class Netns(GuestKind):
    """A network namespace."""

    key = "netns"

    def find(self, host: str, keys: GuestKeys) -> Guest:
        """Open it by its name."""
        name = keys.netns
        path = Path(name) if name.startswith("/") else NETNS_DIR / name
        what = f"network namespace {name}"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            there = NETNS_DIR.iterdir() if NETNS_DIR.is_dir() else ()
            known = sorted(entry.name for entry in there if not entry.name.startswith(_OWN_PREFIX))
            told = nearest(name, ["own", "host", *known])
            raise LabError(f'host {host}: there is no network namespace "{name}" ({told})') from None
        except PermissionError as error:
            raise PrivilegeError(f"host {host}: not permitted to open {what}: run this as root") from error
        except OSError as error:
            raise LabError(f"host {host}: cannot open {what}: {error.strerror}") from error
        return held(host, self.key, what, path, fd)
