"""What `opavnic status` says of the engine: its name, how many workers, what each carries."""

from __future__ import annotations

import pytest
from lab_states import lab_state

from lab_in_memory import lab_in_memory
from opavnic.cli.view.status import engine_line, merging_line
from opavnic.state.lab import EngineStatus

LAB = """
name: x
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, members: [h1, h2]}]
"""


@pytest.mark.looptime
async def test_more_workers_than_the_engine_has_are_no_error_but_said() -> None:
    async with lab_in_memory(LAB + "datapath: {workers: 4}\n") as lab:
        engine = lab.status().engine
    assert engine.as_json() == {
        "name": "python",
        "workers_wanted": 4,
        "workers": [{"engine": "python", "vnics": 2, "links": 3}],
        "merging": {},
        "steered": 0,
        "missed": 0,
    }
    assert engine_line(engine) == "engine python, 1 worker (4 asked for): python 2 VNICs, 3 links"


def test_each_worker_is_named_with_what_it_carries() -> None:
    workers = [{"engine": "native", "vnics": 2, "links": 1}, {"engine": "python", "vnics": 0, "links": 2}]

    def engine(**changes: object) -> EngineStatus:
        return lab_state(engine={"workers": workers, **changes}).engine

    line = engine_line(engine())
    assert line == "engine native, 2 workers: native 2 VNICs, 1 link; python 0 VNICs, 2 links"
    assert engine_line(engine(missed=7)) == f"{line}; 7 sightings missed"
    assert (
        merging_line(engine(merging={"tcp": 2, "udp": 1}))
        == "merged on receipt: TCP at 2 VNICs, UDP at 1 VNIC"
    )
    assert engine_line(engine(steered=2)) == f"{line}; 2 VNICs steered"
