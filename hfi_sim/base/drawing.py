"""Drawings of lines, boxes and words: what stands where, and how that is written as SVG. Text is escaped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from hfi_sim.base.text import xml_text

Point = tuple[float, float]

DIM: Final = "#5b6671"
RULE: Final = "#c8cfd6"
BLUE: Final = "#2f6f9f"
GREEN: Final = "#3f7332"
BROWN: Final = "#8a6508"
VIOLET: Final = "#7f6a9a"
RED: Final = "#c0392b"
PAPER: Final = "white"
"""The colours of drawings, which stand on white; a page has others for those who read it on black."""


@dataclass(slots=True)
class Canvas:
    """A drawing that grows by what is added to it; later shapes lie over earlier ones. All is in pixels."""

    width: float
    height: float
    font: str = "monospace"
    size: int = 11
    """Of letters."""
    _parts: list[str] = field(default_factory=list)

    def line(self, start: Point, end: Point, colour: str = RULE, *, title: str = "", **more: object) -> None:
        """Add a line. Args: title: is shown where the pointer is. more: attributes of SVG, as in all that follows."""
        (x1, y1), (x2, y2) = start, end
        self._add("line", _title(title), x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, **more)

    def text(
        self,
        at: Point,
        text: str,
        colour: str | None = None,
        *,
        lifted: bool = False,
        title: str = "",
        **more: object,
    ) -> None:
        """Add a text. Args: lifted: lines do not strike it."""
        more |= {"xml__space": "preserve"} if "  " in text else {}
        more |= {"stroke": PAPER, "stroke_width": 3, "paint_order": "stroke"} if lifted else {}
        self._add("text", _title(title) + xml_text(text), x=at[0], y=at[1], fill=colour, **more)

    def box(self, at: Point, size: Point, fill: str, **more: object) -> None:
        """Add a box. Args: at: its upper left corner."""
        self._add("rect", x=at[0], y=at[1], width=size[0], height=size[1], fill=fill, **more)

    def node(self, middle: Point, size: Point, name: str, colour: str, *, text: str = "") -> None:
        """Add a box with a name in it, by which a script finds it. Args: middle: of the box. text: for the name."""
        x, y = middle
        self.box((x - size[0] / 2, y - size[1] / 2), size, colour, rx=4, data_node=xml_text(name))
        self.text((x, y + 4), text or name, PAPER, text_anchor="middle")

    def dot(self, at: Point, radius: float, colour: str, title: str) -> None:
        """Add a dot."""
        self._add("circle", _title(title), cx=at[0], cy=at[1], r=radius, fill=colour)

    def cross(self, at: Point, half: float, *, width: float = 2, title: str = "") -> None:
        """Add a red cross: something ended there. Args: half: of its width."""
        (x, y), side = at, _number(2 * half)
        path = f"M{_number(x - half)} {_number(y - half)}l{side} {side}m0 -{side}l-{side} {side}"
        self._add("path", _title(title), d=path, stroke=RED, stroke_width=width)

    def tip(self, at: Point, colour: str, *, leftwards: bool) -> None:
        """Add the tip of an arrow."""
        self._add("path", d=f"M{_number(at[0])} {_number(at[1])}l{8 if leftwards else -8} -4v8z", fill=colour)

    @contextlib.contextmanager
    def group(self, title: str, link: str = "") -> Iterator[None]:
        """What is added in this context has one title, and is one link if it leads anywhere."""
        self._parts.append(
            (f'<a href="{xml_text(link)}">' if link else "<g>") + f"<title>{xml_text(title)}</title>"
        )
        yield
        self._parts.append("</a>" if link else "</g>")

    def svg(self, label: str, *, role: str = "img") -> str:
        """Return it as a part of a page. Args: label: says what it is to those who do not see it."""
        return self._written(f'role="{role}" aria-label="{xml_text(label)}"')

    def document(self, title: str) -> str:
        """Return it as an SVG document, on white."""
        return self._written("", _title(title), f'<rect width="100%" height="100%" fill="{PAPER}"/>')

    def _written(self, about: str, *head: str) -> str:
        wide, high = _number(self.width), _number(self.height)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
                f'font-family="{self.font}" font-size="{self.size}" {about}>',
                *head,
                *self._parts,
                "</svg>\n",
            ]
        )

    def _add(self, name: str, inside: str = "", /, **attributes: object) -> None:
        end = f">{inside}</{name}>" if inside else "/>"
        self._parts.append(f"<{name}{_attributes(**attributes)}{end}")


def _title(text: str) -> str:
    return f"<title>{xml_text(text)}</title>" if text else ""


def _attributes(**values: object) -> str:
    return "".join(
        f' {name.replace("__", ":").replace("_", "-")}="{_number(value) if isinstance(value, float) else value}"'
        for name, value in values.items()
        if value is not None
    )


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
