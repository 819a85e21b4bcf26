"""GUIDs and LIDs of a lab file: nodes bear them, and what has none gets others."""

from __future__ import annotations

from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.lab import Lab

LAB = """name: ids
fabric:
  topology:
    kind: explicit
    switches: {sw0: {ports: 8, guid: 0x0011750102000001, lid: 1}}
    links: [[h1, "sw0:1"], ["h1.2:2", "sw0:2"], [h2, "sw0:3"]]
hosts:
  h1: {hfis: 2, ports: 2, guid: [0x0011750101000020, 0x0011750101000030], lid: [5, 0, 0, 0x102]}
  h2: {}
"""


async def test_nodes_have_the_guids_and_lids_of_the_lab_file() -> None:
    async with Lab(parse_lab(LAB, "lab.yaml"), netdev="memory") as lab:
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
