"""An EM attribute is a class, a row and what reads its value: all else follows."""

from __future__ import annotations

from hfi_sim.wire.mad.header import Method
from opavnic.management.mad_values import attribute_id, mad_json
from opavnic.observe.dissectors import SCRIPTS
from opavnic.scenario import Hosts, ScenarioSimulator
from vema.attributes.attr_id import AttrId
from vema.attributes.netdev_info import NetdevInfo
from vema.base.types import MadStatus
from vema.em.core.messages import build_request


async def test_attribute_of_the_netdev_is_known_wherever_attributes_are(
    hosts: Hosts, mad_simulator: ScenarioSimulator
) -> None:
    h1, _ = hosts
    await mad_simulator.configure(h1, vesw_id=2, eth_mtu=1400)
    seen = await mad_simulator.get(h1, attribute_id("netdev-info"), vport=1)
    assert seen == NetdevInfo(mtu=1400, up=True)
    await mad_simulator.expect_status(
        MadStatus.UNSUPPORTED, Method.SET, h1, AttrId.NETDEV_INFO, value=b"", vport=1
    )
    shown = mad_json(build_request(Method.GET, AttrId.NETDEV_INFO, seen.build()).build())
    assert shown["attribute"] == {"mtu": 1400, "reserved": 0, "up": 1}
    assert '"ema.netdev_info.mtu"' in (SCRIPTS / "opa_ema.lua").read_text()
