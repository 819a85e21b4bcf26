"""A table as all pages have it: dense, sortable, with a name for screen readers."""

from __future__ import annotations

from nicegui import ui


def table(label: str, columns: dict[str, str]) -> ui.table:
    """Return an empty table. Args: columns: heading by the key of a row."""
    return (
        ui.table(
            columns=[
                {"name": key, "label": heading, "field": key, "sortable": True, "align": "left"}
                for key, heading in columns.items()
            ],
            rows=[],
            row_key=next(iter(columns)),
            pagination=50,
        )
        .classes("wide")
        .props(f'dense flat bordered aria-label="{label}"')
    )
