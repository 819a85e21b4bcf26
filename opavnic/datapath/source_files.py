"""The sources of the native module, where they are beside it: which ones a module was built of."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from typing import Final

NATIVE: Final = Path(__file__).parents[2] / "native"
"""The folder of its crates; a wheel has none."""
_NO_PARTS: Final = ("fuzz/", "target/")


@cache
def checksum(native: Path) -> str:
    """Return the checksum of the sources of a native module, as `native/python/build.rs` makes it.

    Args:  native: the folder of its crates. Where there is none, as of a wheel, the result is empty.
    """
    files = {path.relative_to(native).as_posix(): path for path in native.glob("*/src/**/*.rs")}
    found = 0
    for name in sorted(name for name in files if not name.startswith(_NO_PARTS)):
        found = zlib.crc32(name.encode() + files[name].read_bytes(), found)
    return str(found) if files else ""
