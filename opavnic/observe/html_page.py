"""Pages that open offline: one HTML file each, without scripts; drawings are SVG within it. Text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hfi_sim.base.text import visible, xml_text

_PAGE_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1200px; padding: 0 1rem; }
h1 { font-size: 1.25rem; } h2 { font-size: 1.05rem; margin-top: 2rem; border-bottom: 1px solid #8888; }
pre { background: #8882; padding: .8rem; overflow: auto; } .failed { color: #c0392b; } .drawing { max-height: 75vh; }
"""
PARTS_STYLE: Final = """
.parts pre, .parts code, .parts td { font-family: ui-monospace, monospace; font-size: 12px; }
.parts table { border-collapse: collapse; margin: .5rem 0; } .parts td.n { text-align: right; }
.parts td, .parts th { text-align: left; padding: .1rem .8rem .1rem 0; vertical-align: top; }
.parts .drawing { overflow: auto; background: #fff; color: #222; } .parts svg { max-width: 100%; height: auto; }
.parts :target { outline: 2px solid #2f6f9f; } .parts summary { cursor: pointer; }
"""
"""Of what stands within an element of the class `parts`, on a page of its own or on one of the web view."""


def drawing(svg: str, what: str) -> str:
    """Return a drawing as a part of a page that can be scrolled with the keyboard. Args: what: it shows, plain text."""
    return f'<div class="drawing" tabindex="0" role="region" aria-label="{xml_text(what)}">{svg}</div>'


def page(title: str, parts: Iterable[str]) -> str:
    """Return a page. Args: title: of the browser's tab, plain text. parts: of its body, HTML."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{xml_text(visible(title))}</title><style>{_PAGE_STYLE}{PARTS_STYLE}</style></head>"
            '<body class="parts">',
            *parts,
            "</body></html>\n",
        ]
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], nothing: str) -> str:
    """Return a table; where it has no rows, the text `nothing` in its place."""
    rows = list(rows)
    if not rows:
        return f"<p>{nothing}</p>"
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "\n".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _cell(value: object) -> str:
    return f'<td class="n">{value}</td>' if isinstance(value, int) else f"<td>{xml_text(str(value))}</td>"
