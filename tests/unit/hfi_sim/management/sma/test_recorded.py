"""Our SMA of an HFI beside what hfi1's own has answered.

The vectors are recorded in a lab, and held to hfi1 by tests/e2e/test_hfi1_host.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from hfi_sim.management.sma.answers import answer
from hfi_sim.management.sma.node import AttributeRequest, SmaNode
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import MadStatus
from unit.hfi_sim.management.sma.managed_fabric import Managed

RECORDED: Final = json.loads((Path(__file__).parents[4] / "vectors" / "hfi1-sma-get.json").read_text())
BY_DESIGN: Final = (
    SubnetAttrId.PARTITION_TABLE,  # our ports have 64 P_Keys, two blocks; an HFI1 has 16
    SubnetAttrId.CABLE_INFO,  # ours has a module in its cage, the virtual HFI none
)
"""Attributes of which ours takes more."""


@pytest.mark.parametrize("attribute", RECORDED["statuses"])
def test_a_get_has_the_status_that_hfi1_gives_it(attribute: str) -> None:
    node = SmaNode(Managed().h1, lambda _links, _up, _by: None)
    differs = {}
    for modifier, status in zip(RECORDED["modifiers"], RECORDED["statuses"][attribute], strict=True):
        asked = AttributeRequest(int(attribute, 0), int(modifier, 0), False, bytes(1848), 1)
        given, _ = answer(node, asked)
        if given != status:
            differs[modifier] = (status, given)
    if int(attribute, 0) in BY_DESIGN:
        assert set(differs.values()) == {(MadStatus.INVALID, MadStatus.OK)}
    else:
        assert differs == {}
