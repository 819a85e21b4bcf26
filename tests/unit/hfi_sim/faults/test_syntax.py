"""Faults as text and as mappings."""

from __future__ import annotations

import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.errors import FaultError
from hfi_sim.faults import FaultKind, FaultSpec, Match, parse_fault, spec_from_data, spec_text


def test_parse_fault_reads_every_option() -> None:
    spec = parse_fault(
        "loss on h1 20% l4=mad attr=0x11 vesw=5 direction=tx after=1s for=2ms every=5ms count=3 skip=1"
    )
    assert spec == FaultSpec(
        FaultKind.LOSS,
        "h1",
        probability=0.2,
        match=Match(l4=8, attr_id=0x11, vesw_id=5, direction="tx"),
        after_s=1.0,
        for_s=0.002,
        every_s=0.005,
        count=3,
        skip=1,
    )


def test_spec_from_data_takes_numbers_and_units() -> None:
    assert spec_from_data({"kind": "rate", "on": "*", "rate": "25G", "for": 3}) == FaultSpec(
        FaultKind.RATE, "*", rate_bps=25e9, for_s=3.0
    )


def test_spec_from_data_of_yaml_where_on_is_a_boolean() -> None:
    assert spec_from_data(yaml.safe_load("{kind: loss, on: h1}")) == FaultSpec(FaultKind.LOSS, "h1")


@given(
    st.sampled_from(["loss", "duplicate", "reorder", "corrupt"]),
    st.integers(0, 100),
    st.none() | st.integers(1, 10**6),
    st.floats(0, 1e6),
    st.none() | st.integers(0, 0xFFFF),
)
def test_spec_text_reads_back_as_the_same_fault(
    kind: str, percent: int, count: int | None, after_s: float, attr_id: int | None
) -> None:
    spec = FaultSpec(
        FaultKind(kind),
        "h1--sw0",
        probability=percent / 100,
        count=count,
        after_s=float(f"{after_s:.9g}"),
        match=Match(attr_id=attr_id),
    )
    again = parse_fault(spec_text(spec))
    assert again.probability == pytest.approx(spec.probability)
    assert (again.kind, again.on, again.count, again.after_s, again.match) == (
        spec.kind, spec.on, spec.count, spec.after_s, spec.match,
    )  # fmt: skip


@given(st.text(max_size=60))
def test_parse_fault_of_any_text_gives_a_fault_or_a_fault_error(text: str) -> None:
    with contextlib.suppress(FaultError):
        parse_fault(text)
