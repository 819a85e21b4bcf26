"""Puts the Wireshark dissectors of this package where Wireshark looks for them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ejfat.errors import EjfatError

SCRIPTS = Path(__file__).parent / "lua"


def personal_directory() -> Path:
    """Return the directory of a user's Lua plugins: what tshark says, else where it usually is."""
    if shutil.which("tshark") is not None:
        folders = subprocess.run(["tshark", "-G", "folders"], capture_output=True, text=True, check=False)
        for line in folders.stdout.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "Personal Lua Plugins":
                return Path(value.strip())
    return Path.home() / ".local" / "lib" / "wireshark" / "plugins"


def install(directory: Path | None = None) -> list[Path]:
    """Copy the dissectors and return where they are.

    Raises:  EjfatError: the directory cannot be written.
    """
    target = directory if directory is not None else personal_directory()
    try:
        target.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(script, target / script.name)) for script in sorted(SCRIPTS.glob("*.lua"))]
    except OSError as error:
        raise EjfatError(f"{error.filename or target}: {error.strerror}") from None
