"""The Wireshark dissector of this package; `opavnic.observe.dissectors` installs it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SCRIPTS: Final = Path(__file__).parent / "lua"
