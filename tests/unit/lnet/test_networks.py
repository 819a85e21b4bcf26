"""The `networks` module parameter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lnet.base.errors import NidError
from lnet.base.nid import Net
from lnet.settings.networks import parse_networks


def test_two_groups_of_two_interfaces_as_in_the_document() -> None:
    groups = parse_networks("o2ib0(ib0,ib2), o2ib1(ib1,ib3)")
    assert [(group.net, group.interfaces) for group in groups] == [
        (Net.parse("o2ib"), ("ib0", "ib2")),
        (Net.parse("o2ib1"), ("ib1", "ib3")),
    ]
    assert ",".join(map(str, groups)) == "o2ib(ib0,ib2),o2ib1(ib1,ib3)"


def test_spaces_do_not_matter_and_no_list_means_ib0() -> None:
    assert ",".join(map(str, parse_networks("  o2ib ( ib0 , ib1 ) , o2ib3 "))) == "o2ib(ib0,ib1),o2ib3(ib0)"


@pytest.mark.parametrize(
    ("text", "names", "cpts"),
    [
        ("o2ib0(ib0)[0,1]", ("ib0",), (0, 1)),
        ("o2ib0(ib0,ib1) [2]", ("ib0", "ib1"), (2,)),
        ("o2ib0(ib0[0,1],ib1)", ("ib0", "ib1"), (0, 1)),
        ("o2ib0(ib0[0-2], ib1[3])", ("ib0", "ib1"), (0, 1, 2, 3)),
        ("o2ib0[1]", ("ib0",), (1,)),
        ("o2ib0(ib0)", ("ib0",), None),
    ],
)
def test_cpu_partitions_stand_behind_a_network_or_an_interface(
    text: str, names: tuple[str, ...], cpts: tuple[int, ...] | None
) -> None:
    group, other = parse_networks(f"{text},o2ib9(ib9)")
    assert (group.interfaces, group.cpts, other.cpts) == (names, cpts, None)


@pytest.mark.parametrize(
    "text", ["o2ib0(ib0)[", "o2ib0(ib0)[x]", "o2ib0(ib0[)", "o2ib0(ib0[a])", "o2ib0(ib0)]"]
)
def test_cpu_partitions_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(NidError):
        parse_networks(text)


def test_empty_parameter_means_no_network() -> None:
    assert parse_networks("  ") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("o2ib0(ib0", "expected NET"),
        ("o2ib0(ib0)) ", "expected NET"),
        ("o2ib0(ib0),", "expected NET"),
        ("o2ib0()", "'' in o2ib is not an interface name"),
        ("o2ib0(ib0,,ib1)", "'' in o2ib is not an interface name"),
        ("o2ib0(ib0,ib0)", "interface ib0 appears twice"),
        ("o2ib0(ib0),o2ib(ib1)", "o2ib appears twice"),
        ("xyz0(ib0)", "'xyz0' is not a network"),
        ("o2ib0(" + ",".join(f"ib{i}" for i in range(17)) + ")", "17 interfaces; 16 are allowed"),
    ],
)
def test_bad_parameter_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(NidError) as caught:
        parse_networks(text)
    assert reason in str(caught.value)


def test_sixteen_interfaces_are_allowed() -> None:
    (group,) = parse_networks("o2ib0(" + ",".join(f"ib{i}" for i in range(16)) + ")")
    assert len(group.interfaces) == 16


@given(st.text(alphabet="o2ib019(), x", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        groups = parse_networks(text)
    except NidError:
        return
    assert parse_networks(",".join(map(str, groups))) == groups
