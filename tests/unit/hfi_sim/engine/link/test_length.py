"""`length` of a link: metres that every packet takes 5 ns each for."""

from __future__ import annotations

from hfi_sim.engine.config import HfiEnd
from hfi_sim.engine.events.outputs import DirectionId
from opavnic.lab.file.fabric_model import LinkModel
from unit.hfi_sim.engine.hand_made import HandMade, link, packet


def test_longer_cable_takes_longer_also_when_it_is_set_later() -> None:
    bed = HandMade()
    near = bed.port(1)
    bed.cable(HfiEnd(near), HfiEnd(bed.port(2)), link(length_m=20))
    bed.send(0, near, packet(1, 2))
    bed.run()
    bed.engine.set_link(10_000, DirectionId(0), link(length_m=100))
    bed.send(10_000, near, packet(1, 2))
    bed.run()
    first, second = (each.time for each in bed.delivered())
    assert (first, second) == (512 + 1000 + 100, 10_000 + 512 + 1000 + 500)


def test_lab_file_has_the_key() -> None:
    assert LinkModel(length=30).config().length_m == 30
