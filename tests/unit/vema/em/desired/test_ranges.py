"""Ranges of names, as lab and EM files have them."""

from __future__ import annotations

import re

import pytest

from vema.em.desired.desired import EmConfigError, parse_config
from vema.em.desired.ranges import Spread, spread_name, spread_vesws


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("h1", ["h1"]),
        ("h[1-3]", ["h1", "h2", "h3"]),
        ("h[8-11]", ["h8", "h9", "h10", "h11"]),
        ("h[01-02,10]", ["h01", "h02", "h10"]),
        ("leaf[1-2]:[1-2]", ["leaf1:1", "leaf1:2", "leaf2:1", "leaf2:2"]),
        ("", [""]),
    ],
)
def test_range_means_its_names_in_order(text: str, names: list[str]) -> None:
    assert spread_name(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h[3-1]", "3-1 counts down; write 1-3"),
        ("h[1-99999]", "at most 4096"),
        ("h[1-99999999]", "at most 4096"),
        ("h[1-99][1-99]", "means 9801 names"),
        ("h[a-b]", '"[a-b]" is not a range such as [1-16]'),
        ("h[]", '"[]" is not a range'),
        ("h[1-2", "a bracket has no partner"),
        ("h1]", "a bracket has no partner"),
        ("h[1-3,2]", "a number appears twice"),
    ],
)
def test_range_that_cannot_be_meant_says_why(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        spread_name(text)


def test_em_file_writes_ranges_of_members_out_and_names_mistakes_where_they_stand() -> None:
    vesw = {"id": 2, "name": "blue", "members": "h[1-3]", "default_ports": ["h[1-2]"]}
    config = parse_config({"vesws": [vesw]})
    assert config.vesws[0].members == ["h1", "h2", "h3"]
    assert config.vesws[0].default_ports == ["h1", "h2"]
    with pytest.raises(EmConfigError) as caught:
        parse_config({"vesws": [{**vesw, "members": ["h1", "h[1-2]"]}]})
    assert [str(problem) for problem in caught.value.problems] == ['vesws[0].members[1]: "h1" appears twice']
    with pytest.raises(EmConfigError) as caught:
        parse_config({"vesws": [{**vesw, "default_ports": ["h[4-2]"]}]})
    assert str(caught.value) == 'vesws[0].default_ports[0]: "h[4-2]": 4-2 counts down; write 2-4'


def test_guid_without_quotes_is_the_member_that_it_names() -> None:
    spread = Spread(
        {"vesws": [{"members": ["h1", 0x0011750101000020], "default_ports": [0x0011750101000020, 5]}]}
    )
    spread_vesws(spread)
    (vesw,) = spread.data["vesws"]
    assert vesw == {"members": ["h1", "0x0011750101000020"], "default_ports": ["0x0011750101000020", 5]}
