"""Scenarios for tests: a fabric with hosts, VNICs and an Ethernet Manager in one object, on virtual time.

    async with Scenario(clos(2, 2), seed=7) as scenario:
        await scenario.em.vesw("blue", members=["h1", "h4"])
        h1, h4 = scenario.hosts["h1"], scenario.hosts["h4"]
        h1.send(ARP(pdst=h4.ip))
        await h4.expect(ARP(op=1), within=ms(5))

The pytest plugin (`opavnic.pytest_plugin`) makes the same available as fixtures.
"""

from __future__ import annotations

from opavnic.scenario.base import ScenarioError
from opavnic.scenario.em import ScenarioEm
from opavnic.scenario.frames import Matcher
from opavnic.scenario.hosts import Hosts, ScenarioHost
from opavnic.scenario.mad import ScenarioSimulator
from opavnic.scenario.managers import EmStandby
from opavnic.scenario.scenario import Scenario
from opavnic.scenario.virtual import ms, ns, run_virtual, seconds, us
from opavnic.scenario.vnic import ScenarioVnic

__all__ = [
    "EmStandby",
    "Hosts",
    "Matcher",
    "Scenario",
    "ScenarioEm",
    "ScenarioError",
    "ScenarioHost",
    "ScenarioSimulator",
    "ScenarioVnic",
    "ms",
    "ns",
    "run_virtual",
    "seconds",
    "us",
]
