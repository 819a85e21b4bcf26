"""The gallery draws the members of virtual switches in layers."""

from __future__ import annotations

import re

from opavnic.cli.labs.init import examples
from opavnic.lab.file.loader import parse_lab
from tools.generate.gallery import vesws_drawing


def rows_of(example: str) -> list[set[str]]:
    """Return the names in the drawing of the virtual switches of an example, by height, the lowest first."""
    svg = vesws_drawing(parse_lab(examples()[example], f"{example}.yaml")).document("x")
    rows: dict[float, set[str]] = {}
    for y, name in re.findall(r'<text [^>]*\by="([\d.]+)" fill="white"[^>]*>([^<]+)<', svg):
        rows.setdefault(float(y), set()).add(name)
    return [rows[y] for y in sorted(rows, reverse=True)]


def test_clos_of_routers_is_drawn_with_clients_below_leaves_below_spines() -> None:
    assert rows_of("clos") == [{"c1", "c2"}, {"leaf1", "leaf2"}, {"spine1", "spine2"}]


def test_switches_of_more_than_two_hosts_and_of_the_same_hosts_are_boxes() -> None:
    assert rows_of("two-switches") == [{"h1", "h2"}, {"blue", "red"}]
    assert rows_of("data-centre")[1:] == [{"web", "db", "disks"}, {"gw"}]
