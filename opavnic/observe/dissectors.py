"""Install the Wireshark dissectors of all installed packages where Wireshark looks for them.

A package contributes a directory of Lua scripts through the entry point group "opavnic.dissectors": name -> Path.
"""

from __future__ import annotations

import pprint
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hfi_sim.base.entry_points import entry_points_of
from opavnic.base.errors import OpavnicError
from opavnic.observe.layer_rows import layer_rows

ENTRY_POINTS: Final = "opavnic.dissectors"
SCRIPTS: Final = Path(__file__).parent / "lua"
"""The dissectors of 16B packets and of the MADs between the Ethernet Manager and its agents."""


def script_directories() -> list[Path]:
    """Return the directories of Lua scripts of all installed packages."""
    return [point.load() for point in sorted(entry_points_of(ENTRY_POINTS), key=lambda point: point.name)]


def personal_directory() -> Path:
    """Return the directory of the user's Lua plugins: the one that tshark reports, or else the usual one."""
    if shutil.which("tshark") is not None:
        folders = subprocess.run(["tshark", "-G", "folders"], capture_output=True, text=True, check=False)
        for line in folders.stdout.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "Personal Lua Plugins":
                return Path(value.strip())
    return Path.home() / ".local" / "lib" / "wireshark" / "plugins"


def install(directories: Iterable[Path], target: Path) -> list[Path]:
    """Copy the scripts of `directories` to `target`, creating it if needed; return the paths of the copies.

    Raises:  OpavnicError: `target` cannot be written.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        return [
            Path(shutil.copy(script, target / script.name))
            for directory in directories
            for script in sorted(directory.glob("*.lua"))
        ]
    except FileExistsError:
        raise OpavnicError(f"{target} is a file; the dissectors need a directory") from None
    except OSError as error:
        raise OpavnicError(f"{error.filename2 or error.filename or target}: {error.strerror}") from None


def scapy_file() -> str:
    """Return the scapy layers of the same packets as one file that needs nothing but scapy."""
    layers = Path(__file__).with_name("opa_scapy.py").read_text()
    rows = pprint.pformat(layer_rows(), width=110, compact=True, sort_dicts=False)
    return layers.replace("from opavnic.observe.layer_rows import layer_rows\n\n", "").replace(
        "layer_rows()", rows
    )
