"""Pages that open offline: one HTML file each, without scripts; drawings are SVG within it. Text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Final

from hfi_sim.base.text import visible, xml_text

COLOURS: Final = files("opavnic.observe").joinpath("colours.css").read_text()
"""Variables of CSS, light and dark."""
_PAGE_STYLE: Final = """
body { font: 1rem/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 90rem; padding: 0 1rem; }
body { background: var(--paper); color: var(--ink); } a { color: var(--link); }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2rem; border-bottom: 1px solid; }
pre { background: var(--panel); padding: .8rem; overflow: auto; } .failed { color: var(--bad); }
.drawing { max-height: 75vh; } .colours { float: right; }
@media (prefers-color-scheme: light) { :root:has(.colours :checked) { color-scheme: dark; } }
@media (prefers-color-scheme: dark) { :root:has(.colours :checked) { color-scheme: light; } }
@media (min-width: 2200px) { body { zoom: 1.35; } }
@media (min-width: 3200px) { body { zoom: 2; } }
"""
_SWITCH: Final = '<label class="colours"><input type="checkbox"> other colours</label>'
_DRAWN: Final = {
    "#5b6671": "--dim",
    "#555": "--dim",
    "#e5e5e5": "--rule",
    "#c8cfd6": "--rule",
    "#2f6f9f": "--rate",
    "#3f7332": "--good",
    "#8a6508": "--fault",
    "#c0392b": "--bad",
}
"""Colours of drawings, which also stand alone, on white, and what they are on a page."""
PARTS_STYLE: Final = """
.parts pre, .parts code, .parts td { font-family: ui-monospace, monospace; font-size: .85rem; }
.parts table { border-collapse: collapse; margin: .5rem 0; } .parts td.n { text-align: right; }
.parts td, .parts th { text-align: left; padding: .1rem .8rem .1rem 0; vertical-align: top; }
@media (max-width: 599px) { .parts td { overflow-wrap: anywhere; min-width: 2.5rem; } }
.parts .drawing { overflow: auto; } .parts svg { min-width: 44rem; max-width: 100%; height: auto; }
.parts :target { outline: 2px solid var(--link); } .parts summary { cursor: pointer; overflow-wrap: anywhere; }
.parts text:not([fill]) { fill: var(--ink); } .parts rect[fill="white"] { fill: var(--paper); }
.parts [stroke="white"] { stroke: var(--paper); }
""" + "\n".join(
    f'.parts text[fill="{drawn}"], .parts path[fill="{drawn}"] {{ fill: var({shown}); }} '
    f'.parts [stroke="{drawn}"] {{ stroke: var({shown}); }}'
    for drawn, shown in _DRAWN.items()
)
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
            f"<title>{xml_text(visible(title))}</title><style>{COLOURS}{_PAGE_STYLE}{PARTS_STYLE}</style></head>"
            f'<body class="parts"><main>{_SWITCH}',
            *parts,
            "</main></body></html>\n",
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
