"""Hypothesis strategies for headers and packets, shared by the tests of this directory."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from hfi_sim.wire.field import BITS_PER_BYTE, Field, Shown
from hfi_sim.wire.lrh16b import L4, Lrh16B


def bits(width: int) -> st.SearchStrategy[int]:
    """All values of a field of `width` bits."""
    return st.integers(0, (1 << width) - 1)


def item_values(field: Field) -> st.SearchStrategy[Any]:
    """Any value of a field, or of one of its items."""
    if field.record is not None:
        return st.fixed_dictionaries({name: field_values(item) for name, item in field.record.fields.items()})
    if field.shown in (Shown.BYTES, Shown.MAC):
        size = field.bits // BITS_PER_BYTE
        return st.binary(min_size=size, max_size=size)
    if field.shown is Shown.FLAG:
        return st.booleans()
    if field.signed:
        return st.integers(-1 << field.bits - 1, (1 << field.bits - 1) - 1)
    return st.integers(0, (1 << field.bits) - 1)


def field_values(field: Field) -> st.SearchStrategy[Any]:
    """Any value of a field."""
    if field.count:
        return st.tuples(*[item_values(field)] * field.count)
    return item_values(field)


def headers(**fixed: st.SearchStrategy[object]) -> st.SearchStrategy[Lrh16B]:
    """Any 16B header whose Length, L2 and LT are the default ones."""
    left = ("length_qw", "l2", "lt")
    declared = Lrh16B.HEADER.fields.items()
    fields = {name: field_values(field) for name, field in declared if name not in left}
    return st.builds(Lrh16B, **{**fields, **fixed})  # type: ignore[arg-type]


PAYLOADS = st.binary(min_size=8, max_size=200)
"""Payloads long enough for every L4 header that is known."""

L4_TYPES = st.sampled_from([int(item) for item in L4])
