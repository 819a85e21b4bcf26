"""The ground a campaign stands on: mount, network and process namespaces of its own, with /run and /tmp empty.

What is done there touches nobody else's labs, and ends with its first process: that one is killed when the process
that asked for the ground ends, however it ends, and the kernel then kills all others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

TOOLS: Final = ("unshare", "setpriv", "ip", "ping", "mount", "bash")
RUNTIME: Final = Path("/run/opavnic")
"""The runtime directory of the labs: a small tmpfs of its own."""
FILES: Final = Path("/run/campaign")
"""Lab files and what programs print: not on the disk that is filled."""
DISK: Final = "8m"
_MARK: Final = "CHAOS_GROUND"
_SCRIPT: Final = f"""
set -e
# namespaces and files of other labs, whose end would be seen here: a mount goes everywhere with what it is on
leave() {{
  mapfile -t mounts < /proc/self/mountinfo
  for mount in "${{mounts[@]}}"; do
    read -r _ _ _ _ place _ <<< "$mount"
    [[ $place != "$1"/* ]] || umount --lazy "$place" || true
  done
}}
leave /run
mount -t tmpfs tmpfs /run
kept=(); while [ "$1" != -- ]; do kept+=("$1"); shift; done; shift
for place in "${{kept[@]}}"; do mkdir -p "/run/kept$place"; mount --rbind "$place" "/run/kept$place"; done
leave /tmp
mount -t tmpfs tmpfs /tmp
for place in "${{kept[@]}}"; do mkdir -p "$place"; mount --move "/run/kept$place" "$place"; done
rm -rf /run/kept
mkdir -p /run/netns {RUNTIME} {FILES}
mount -t tmpfs -o size={DISK},mode=0700 tmpfs {RUNTIME}
ip link set lo up
set +e
"$@"
exit $?
"""


def on_own_ground(command: Sequence[str]) -> list[str]:
    """Return the command that runs `command` on ground of its own."""
    return [
        *("setpriv", "--pdeathsig", "KILL", "env", f"{_MARK}=1"),
        *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("--propagation", "private", "bash", "-c", _SCRIPT, "ground", *map(str, kept()), "--", *command),
    ]


def kept() -> list[Path]:
    """Return what lies in /tmp and has to be there on the ground, too: this checkout, the Python that plays it."""
    places = {Path(__file__).resolve().parents[2], Path(sys.prefix), Path(sys.base_prefix)}
    inside = [place for place in places if place.is_relative_to("/tmp")]  # noqa: S108 - not written to
    return sorted(place for place in inside if not any(other in place.parents for other in inside))


def check_ground() -> None:
    """Raise RuntimeError unless this process is on ground of its own: all that follows relies on it."""
    if os.environ.get(_MARK) != "1" or not os.path.ismount(RUNTIME) or os.getpid() > 1000:
        raise RuntimeError("a campaign runs on ground of its own only: make chaos")
