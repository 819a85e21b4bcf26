"""Keys of a terminal out of the bytes that it sends. Pure.

Source: ECMA-48 control sequences as xterm and its kin send them; cursor keys in both modes, CSI and SS3.
"""

from __future__ import annotations

import re
from typing import Final

UP, DOWN, LEFT, RIGHT = "up", "down", "left", "right"
PAGE_UP, PAGE_DOWN, HOME, END = "page up", "page down", "home", "end"
ENTER, ESCAPE, BACKSPACE, TAB, DELETE, BACK_TAB = "enter", "escape", "backspace", "tab", "delete", "back tab"

_SEQUENCES: Final = {
    "[A": UP, "OA": UP, "[B": DOWN, "OB": DOWN, "[C": RIGHT, "OC": RIGHT, "[D": LEFT, "OD": LEFT,
    "[5~": PAGE_UP, "[6~": PAGE_DOWN, "[H": HOME, "OH": HOME, "[1~": HOME, "[7~": HOME,
    "[F": END, "OF": END, "[4~": END, "[8~": END, "[3~": DELETE, "[Z": BACK_TAB,
}  # fmt: skip
_ONE: Final = {"\r": ENTER, "\n": ENTER, "\x7f": BACKSPACE, "\b": BACKSPACE, "\t": TAB}
_SEQUENCE: Final = re.compile(r"\x1b(\[[0-9;]*[A-Za-z~]|O[A-Z])")
_BEGUN: Final = re.compile(r"\x1b(\[[0-9;]*|O)?$")


def is_begun(data: str) -> bool:
    """Return whether `data` may end in the middle of a sequence; it is ESC itself if nothing follows soon."""
    return _BEGUN.search(data) is not None


def keys(data: str) -> list[str]:
    """Return the keys of what a terminal has sent; a printable character stands for itself, others are left out."""
    found = []
    at = 0
    while at < len(data):
        if sequence := _SEQUENCE.match(data, at):
            at = sequence.end()
            if key := _SEQUENCES.get(sequence[1]):
                found.append(key)
            continue
        character = data[at]
        at += 1
        if character == "\x1b":
            found.append(ESCAPE)
        elif character in _ONE:
            found.append(_ONE[character])
        elif character.isprintable():
            found.append(character)
    return found
