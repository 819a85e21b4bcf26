"""The Wireshark dissectors of this package; `opavnic.observe.dissectors` puts them where Wireshark looks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SCRIPTS: Final = Path(__file__).parent / "lua"
