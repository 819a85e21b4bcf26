"""`opavnic save`: the running state as a lab file that leads to the same state."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lab_in_memory import lab_in_memory
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.save import save
from vema.em.desired.desired import parse_config

LAB = """
name: saved
fabric: {id: 0x301, link: {rate: 25G, latency: 1us}}
hosts: {h1: {}, h2: {hfis: 2}, h3: {}}
vesws:
  - {id: 2, name: blue, pkey: 0x8002, mtu: 1500, subnet: 10.9.2.0/24, members: [h1, h2]}
  - {id: 3, name: red, pkey: 0x8002, members: [h2, h3]}
faults: [loss on h1 20% l4=mad]
"""
BLUE = {"id": 2, "name": "blue", "pkey": 0x8002, "mtu": 4000, "members": ["h1", "h3"]}
GREEN = {"id": 9, "name": "green", "pkey": 0x8002, "members": ["h2:1", "h3"]}


def configured(lab: Lab) -> set[tuple[str, int, int]]:
    """Return the host, virtual switch and P_Key of each VNIC that the manager has put on one."""
    assert lab.manager is not None
    assert lab.manager.em.core is not None
    return {
        (port.facts.host, vport.vesw_id, vport.info.pkey)
        for port, vport in lab.manager.em.core.vports()
        if vport.info is not None and vport.vesw_id
    }


async def apply(lab: Lab, *vesws: dict[str, Any], **more: Any) -> None:
    assert lab.manager is not None
    lab.manager.em.apply(parse_config({"fabric": {"id": 0x301}, "vesws": list(vesws), **more}))
    assert await lab.manager.em.wait_converged(30.0)


@pytest.mark.looptime
async def test_lab_that_nobody_changed_is_saved_as_it_was_read() -> None:
    async with lab_in_memory(LAB) as lab:
        saved = save(lab)
    assert saved.left_out == []
    again = yaml.safe_load(saved.lab_file)
    assert again["vesws"][0] == yaml.safe_load(LAB)["vesws"][0]
    assert again["faults"] == ["loss on h1 probability=20% l4=0x8"]
    assert "pkey: 0x8002" in saved.lab_file
    assert again["fabric"]["link"] == {"rate": "25G", "latency": "1us"}


@pytest.mark.looptime
async def test_what_changed_is_saved_and_comes_up_again() -> None:
    async with lab_in_memory(LAB) as lab:
        await apply(lab, BLUE, GREEN, mac="learn")
        lab.world.faults.clear()
        lab.world.faults.add("delay on h2--sw0 delay=5us")
        first = save(lab)
        before = configured(lab)
    data = yaml.safe_load(first.lab_file)
    assert [(vesw["name"], vesw["members"]) for vesw in data["vesws"]] == [
        ("blue", ["h1", "h3"]),
        ("green", ["h2", "h3"]),
    ]
    assert data["em"]["mac"] == "learn"
    assert data["faults"] == ["delay on h2--sw0 delay=5us"]
    async with lab_in_memory(first.lab_file) as lab:
        assert save(lab).lab_file == first.lab_file
        assert configured(lab) == before


@pytest.mark.looptime
async def test_what_a_lab_file_cannot_say_is_named() -> None:
    async with lab_in_memory(LAB) as lab:
        await apply(lab, {**BLUE, "link": "down"}, limits={"retries": 7})
        saved = save(lab)
    assert yaml.safe_load(saved.lab_file)["vesws"][0]["link"] == "down"
    assert "em: limits" in saved.left_out


@pytest.mark.looptime
async def test_name_that_names_no_interface_is_refused_with_its_place() -> None:
    async with lab_in_memory(LAB) as lab:
        await apply(lab, {**BLUE, "name": "a tenant with spaces"})
        with pytest.raises(LabError, match=r'vesws "a tenant with spaces".name: '):
            save(lab)


@pytest.mark.looptime
async def test_loss_of_links_is_saved_once_and_ranges_written_out() -> None:
    text = """
name: ranged
fabric: {link: {loss: 1%, delay: 2us 1us, queue: 20ms}}
hosts: 3
vesws: [{id: 2, name: blue, members: all, rc: {default: 3}}]
"""
    async with lab_in_memory(text) as lab:
        saved = save(lab)
        assert [row["fault"] for row in lab.world.faults.show()] == ["loss on * probability=1%"]
    again = yaml.safe_load(saved.lab_file)
    assert again["faults"] == ["loss on * probability=1%"]
    assert "loss" not in again["fabric"]["link"]
    assert again["fabric"]["link"]["queue"] == "20ms"
    assert list(again["hosts"]) == again["vesws"][0]["members"] == ["h1", "h2", "h3"]
    assert again["vesws"][0]["rc"]["default"] == 3
    assert parse_lab(saved.lab_file, "saved.yaml").fabric.link.jitter == 1e-6
