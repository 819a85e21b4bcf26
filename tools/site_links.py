"""A hook of MkDocs: what Markdown says to a reader of the repository, and would say wrongly on the site.

- Links out of docs/ become text, because the site holds the pages alone, not the sources.
- Code in a table loses the backslash in front of a vertical bar: the extension that makes tables leaves it there.
"""

from __future__ import annotations

import html
import posixpath
import re
from typing import Any, Final

_UP: Final = re.compile(r"\[([^\]]+)\]\((\.\./[^)]+)\)")
_ROW: Final = re.compile(r"^\|.*\|$", re.MULTILINE)
_CODE_WITH_BAR: Final = re.compile(r"`([^`]*\\\|[^`]*)`")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page's text as the site shows it. Args: page: `file.src_path` is its path below docs/."""
    directory = posixpath.dirname(page.file.src_path)

    def shown(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(directory, link[2]))
        if not target.startswith("../"):
            return link[0]
        return f"{link[1]} (`{target.removeprefix('../')}` in the repository)"

    return _ROW.sub(lambda row: _CODE_WITH_BAR.sub(_code, row[0]), _UP.sub(shown, markdown))


def _code(found: re.Match[str]) -> str:
    return f"<code>{html.escape(found[1].replace(chr(92) + '|', '|')).replace('|', '&#124;')}</code>"
