"""Faults as text and as mappings."""

from __future__ import annotations

import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import FaultError
from hfi_sim.fabric.faults import FaultKind, FaultSpec, Match, parse_fault, spec_from_data, spec_text
from hfi_sim.wire.lrh16b import Lrh16B


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "link-down on h1 5%",
            "fault link-down has no option probability; it is for loss, duplicate, reorder",
        ),
        ("rate on h1 5% rate=1G", "fault rate has no option probability"),
        ("crash on h1 skip=2", "fault crash has no option skip"),
        ("loss on h1 5% bits=3", "fault loss has no option bits; it is for corrupt$"),
        ("corrupt on h1 copies=3", "fault corrupt has no option copies; it is for duplicate$"),
        ("loss on h1 behind=3", "fault loss has no option behind; it is for reorder$"),
        ("delay on h1 delay=1us hold=1ms hold=1ms", "hold appears twice"),
        ("delay on h1 delay=1us hold=2ms", "fault delay has no option hold; it is for reorder$"),
        ("loss on h1 delay=1us", "fault loss has no option delay; it is for delay$"),
        ("link-down on h1 rate=1G", "fault link-down has no option rate; it is for rate$"),
        ("loss on h1 l4=300", "fault loss: l4 is 300; the field has 8 bits: 0 to 0xff$"),
        ("loss on h1 lid=-1", "fault loss: lid is -1; the field has 24 bits: 0 to 0xffffff$"),
        ("loss on h1 sc=32", "fault loss: sc is 32; the field has 5 bits: 0 to 0x1f$"),
        ("loss on h1 vesw=65536", "fault loss: vesw is 65536; the field has 16 bits: 0 to 0xffff$"),
        ("loss on h1 attr=0x10000", "fault loss: attr is 65536; the field has 16 bits"),
        ("loss on h1 method=256", "fault loss: method is 256; the field has 8 bits"),
    ],
)
def test_parse_fault_of_an_option_that_would_do_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(FaultError, match=message):
        parse_fault(text)


@pytest.mark.parametrize("size", range(Lrh16B.SIZE))
def test_bytes_shorter_than_a_header_fit_only_where_nothing_is_asked(size: int) -> None:
    assert Match().fits(bytes(size))
    assert Match(direction="rx").fits(bytes(size))
    for asked in (Match(l4=0), Match(lid=0), Match(sc=0), Match(slid=0), Match(dlid=0), Match(method=0)):
        assert not asked.fits(bytes(size))
