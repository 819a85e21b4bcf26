"""VNICs that somebody has made beside those of the manager: removed where nothing configures them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hfi_sim.wire.mad.header import Method
from lab_in_memory import lab_in_memory
from opavnic.lab.file.errors import LabInputError
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.lab_routes import remove_vnics
from vema.attributes.attr_id import AttrId
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.core.messages import build_request

LAB = """
name: beside
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, members: [h1, h2]}]
"""
STRAY = 200


def send(lab: Lab, attr_id: AttrId, data: bytes) -> None:
    request = build_request(Method.SET, attr_id, data, attr_mod=STRAY, tid=1)
    assert lab.world.vnic_ports["h1:1"].agent.receive(request.build()) is not None


def make_stray(lab: Lab) -> None:
    send(lab, AttrId.VESW_PORT_INFO, replace(VeswPortInfo.power_on(), vesw_id=9).build())


@pytest.mark.looptime
async def test_vnic_at_power_on_defaults_is_removed_with_its_netdev() -> None:
    async with lab_in_memory(LAB) as lab:
        lid = lab.world.hosts["h1"].port.lid
        before = [str(vnic) for vnic in lab.vnics()]
        make_stray(lab)
        with pytest.raises(LabInputError, match=f"vport {STRAY} of h1 is on virtual switch 9; it stays"):
            remove_vnics(lab, lid, [STRAY])
        send(lab, AttrId.DELETE_VESW, b"")
        assert len(list(lab.vnics())) == len(before) + 1
        assert remove_vnics(lab, lid, [STRAY, 201]) == [STRAY]
        assert [str(vnic) for vnic in lab.vnics()] == before
        make_stray(lab)  # it may be made again
        assert len(list(lab.vnics())) == len(before) + 1
        assert lab.status().balance == {}


@pytest.mark.looptime
async def test_vnic_of_the_lab_file_and_wrong_lid_are_refused() -> None:
    async with lab_in_memory(LAB) as lab:
        with pytest.raises(LabInputError, match="vport 1 of h1 is one of the lab file; it stays"):
            remove_vnics(lab, lab.world.hosts["h1"].port.lid, [1])
        with pytest.raises(LabInputError, match="no port with a management agent has LID 77"):
            remove_vnics(lab, 77, [1])
