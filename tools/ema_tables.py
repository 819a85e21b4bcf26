"""Write the tables of the EM attributes into the pages that are given: tools/ema_tables.py docs/ema-attributes.md."""

from __future__ import annotations

import sys
from pathlib import Path

from vema.attributes.tables import refresh


def main() -> None:
    """Rewrite each page in place."""
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(refresh(page.read_text()))


if __name__ == "__main__":
    main()
