"""The version of the protocol between control plane, workers and operators, and what a client makes of another one.

Source: `compatTag` in VersionReply of the public control plane; its tags are numbers, 0.3.1 at present.
"""

from __future__ import annotations

from typing import Final

COMPAT_TAG: Final = "ejfat-lb-1"
"""Of this control plane. It changes with what an older client would misunderstand."""
_OURS: Final = "ejfat-lb-"
_PUBLIC: Final = (0, 3)
"""The oldest tag of the public control plane whose messages this client knows, major and minor number."""


def mismatch(tag: str, build: str) -> str:
    """Return why a client does not work with a control plane; empty if it does.

    Args:    tag, build: from its VersionReply. A control plane that names no version, or an unknown
        kind, is taken to be like the public one.
    """
    if tag.startswith(_OURS):
        need = "" if tag == COMPAT_TAG else COMPAT_TAG
    else:
        numbers = tag.split(".")[: len(_PUBLIC)]
        known = len(numbers) == len(_PUBLIC) and all(part.isdecimal() for part in numbers)
        need = (
            f"{'.'.join(map(str, _PUBLIC))} or later" if known and tuple(map(int, numbers)) < _PUBLIC else ""
        )
    return f"control plane {build} speaks protocol {tag}; this program needs {need}" if need else ""
