"""A hook of MkDocs: links out of docs/ become text, because the site holds the pages alone, not the sources."""

from __future__ import annotations

import re
from typing import Any, Final

_OUT: Final = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text with each link to a file outside of docs/ replaced by the file's path in the repository."""
    return _OUT.sub(lambda found: f"{found[1]} (`{found[2]}` in the repository)", markdown)
