"""Write the offset tables of the wire formats into the pages that are given: tools/wire_tables.py docs/wire-*.md."""

from __future__ import annotations

import sys
from pathlib import Path

from hfi_sim.wire.tables import refresh


def main() -> None:
    """Rewrite each page in place."""
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(refresh(page.read_text()))


if __name__ == "__main__":
    main()
