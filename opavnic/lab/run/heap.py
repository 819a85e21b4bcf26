"""The memory of a process that runs for days: what it does at its start."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK: Final = 128 << 10
"""Bytes: glibc's threshold at the start of a process."""
_NEW_OBJECTS: Final = 200_000
"""After how many new objects garbage is looked for while a lab starts; Python's default is 700."""


def keep_large_blocks_out_of_the_heap() -> None:
    """Make glibc map each large block of memory by itself and unmap it when it is freed, for good.

    By default glibc raises the threshold whenever such a block is freed (mallopt(3), "dynamic mmap threshold"). The
    next large block then comes out of the heap, small ones settle behind it, and its space is reused only in part: the
    resident memory of a lab whose EM got a thousand configurations grew by 9 MiB, with the threshold fixed by 2.
    Other C libraries have no such option. A threshold that the user has set (MALLOC_MMAP_THRESHOLD_) stays.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


@contextmanager
def rare_garbage_collections() -> Iterator[None]:
    """Look for garbage rarely while a lab starts, and then exempt what is there from every later search.

    Nearly all objects that a starting lab makes live as long as it does, and each search goes through them again: with
    1000 hosts that took a tenth of the start. In a running lab a search through all of them would delay the fabric.
    """
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
        gc.freeze()
    finally:
        gc.set_threshold(*before)
