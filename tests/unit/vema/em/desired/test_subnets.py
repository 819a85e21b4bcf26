"""Subnets of virtual switches in which hosts cannot have addresses."""

from __future__ import annotations

import pytest

from vema.em.desired.subnets import subnet_problems


@pytest.mark.parametrize(
    ("subnet", "mtu", "text"),
    [
        ("fd00::/64", 1279, "fd00::/64 is IPv6, which needs an MTU of at least 1280; it is 1279 here"),
        ("fd00::/64", 1280, ""),
        ("10.9.2.0/24", 576, ""),
        ("10.9.2.1/32", 1500, "10.9.2.1/32 has too few addresses for any hosts"),
        ("10.9.2.0/31", 1500, ""),
    ],
)
def test_subnet_is_one_in_which_hosts_can_have_addresses(subnet: str, mtu: int, text: str) -> None:
    problems = subnet_problems([(0, {"name": "blue", "subnet": subnet, "mtu": mtu})])
    assert [problem.message for problem in problems] == [text] * bool(text)
