"""The scenario object: what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from opavnic.scenario import Hosts, ScenarioEm, ScenarioError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": ["h1", "h9"]}, r'unknown host "h9" \(nearest: "h'),
        ({"members": ["h1"], "mtuu": 9000}, "mtuu"),
        ({"members": ["h1"], "mtu": 3}, "mtu"),
        ({"members": ["h1"], "pkey": 0x18001}, "pkey"),
        ({"members": ["h1"], "id": 4096}, "4096"),
        ({"members": ["h1"], "default_ports": ["h7"]}, "h7"),
    ],
)
async def test_refused_virtual_switch_leaves_nothing_behind(
    hosts: Hosts, em: ScenarioEm, options: dict[str, Any], message: str
) -> None:
    await em.vesw("blue", members=hosts)
    before = (dict(em.vesws), hosts["h1"].port.pkeys)
    with pytest.raises(ScenarioError, match=message):
        await em.vesw("red", **options)
    assert (dict(em.vesws), hosts["h1"].port.pkeys) == before
    assert list(hosts["h1"].vnics) == ["blue"]
    await em.vesw("red", members=hosts)  # the name is free, and the next call is not refused for the last one
    assert await hosts["h1"].ping(hosts["h2"], on="red") == 1


async def test_refused_update_leaves_the_virtual_switch_as_it_was(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts, mtu=2000)
    with pytest.raises(ScenarioError, match="mtu"):
        await em.update("blue", mtu=99_999)
    with pytest.raises(ScenarioError, match=r'unknown host "h3"'):
        await em.update("blue", members=["h3"], mtu=1500)
    with pytest.raises(ScenarioError, match=r'unknown virtual switch "blu" \(nearest: "blue"'):
        await em.remove("blu")
    assert em.vesws["blue"]["mtu"] == 2000
    await em.update("blue", mtu=4000)
    assert hosts["h1"].vnic().adapter.netdev.max_mtu == 4000


async def test_many_virtual_switches_are_refused_together(hosts: Hosts, em: ScenarioEm) -> None:
    with pytest.raises(ScenarioError, match=r'unknown host "h8"'):
        await em.vesws_of({"red": ["h1"], "blue": ["h8"]})
    assert em.vesws == {}
    assert hosts["h1"].vnics == {}
