"""GUIDs and LIDs of a lab file: nodes bear them, and what has none gets others."""

from __future__ import annotations

import pytest

from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.lab import Lab

LAB = """name: ids
fabric:
  topology:
    kind: explicit
    switches: {{sw0: {{ports: 8, guid: 0x0011750102000001, lid: 1}}}}
    links: [[h1, "sw0:1"], ["h1.2:2", "sw0:2"], [h2, "sw0:3"]]
hosts:
  h1: {h1}
  h2: {{}}
"""
H1 = "{hfis: 2, ports: 2, guid: [0x0011750101000020, 0x0011750101000030], lid: [5, 0, 0, 0x102]}"


async def test_nodes_have_the_guids_and_lids_of_the_lab_file() -> None:
    async with Lab(parse_lab(LAB.format(h1=H1), "lab.yaml"), netdev="memory") as lab:
        fabric = lab.world.fabric
        assert [fabric.hfis[name].node_guid for name in ("h1", "h1.2")] == [
            0x11750101000020,
            0x11750101000030,
        ]
        assert (fabric.switches["sw0"].node_guid, fabric.switches["sw0"].lid) == (0x11750102000001, 1)
        assert [lab.world.hosts["h1"].ports[at].lid for at in (0, 3)] == [5, 0x102]
        others = {lab.world.em_port.lid, lab.world.hosts["h2"].port.lid}
        assert len(others) == 2
        assert not others & {0, 1, 5, 0x102}


@pytest.mark.parametrize(
    ("h1", "problem"),
    [
        ("{guid: [1, 2]}", "hosts.h1: guid: 2 for 1 HFI"),
        ("{hfis: 2, ports: 2, lid: [1, 2, 3, 4, 5]}", "hosts.h1: lid: 5 for 4 ports"),
        ("{hfis: 2, ports: 2, lid: 1}", "LID 0x1 is already that of "),
        ("{hfis: 2, ports: 2, lid: 0xf00000}", "should be less than 15728640"),
        ("{hfis: 2, ports: 2, guid: 0x0011750102000001}", "GUID 0x0011750102000001 is already that of "),
    ],
)
def test_guids_and_lids_that_cannot_be_are_refused_with_their_place(h1: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_lab(LAB.format(h1=h1), "lab.yaml")
