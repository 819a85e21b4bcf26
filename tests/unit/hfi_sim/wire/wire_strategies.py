"""Hypothesis strategies for headers and packets, shared by the tests of this directory."""

from __future__ import annotations

from hypothesis import strategies as st

from hfi_sim.wire.l4 import L4
from hfi_sim.wire.lrh16b import Lrh16B


def bits(width: int) -> st.SearchStrategy[int]:
    """All values of a field of `width` bits."""
    return st.integers(0, (1 << width) - 1)


def headers(**fixed: st.SearchStrategy[object]) -> st.SearchStrategy[Lrh16B]:
    """Any 16B header whose L2 and LT are those of a 16B packet."""
    fields: dict[str, st.SearchStrategy[object]] = {
        "slid": bits(24),
        "dlid": bits(24),
        "becn": st.booleans(),
        "sc": bits(5),
        "rc": bits(3),
        "fecn": st.booleans(),
        "l4": bits(8),
        "pkey": bits(16),
        "entropy": bits(16),
        "age": bits(8),
        "reserved": bits(8),
    }
    return st.builds(Lrh16B, **{**fields, **fixed})  # type: ignore[arg-type]


PAYLOADS = st.binary(min_size=8, max_size=200)
"""Payloads long enough for every L4 header that is known."""

L4_TYPES = st.sampled_from([int(item) for item in L4])
