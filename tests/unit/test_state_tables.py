"""What holds for every table of states: one next state, no state out of reach, a clear error for any other event."""

from __future__ import annotations

from typing import Any

import pytest

from hfi_sim.base.errors import HfiSimError
from hfi_sim.base.state_table import StateTable
from tools.generate.machines import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_every_state_is_reached_and_every_other_event_is_refused_by_name(name: str) -> None:
    table: StateTable[Any, Any] = TABLES[name][0]
    steps = [(state, event) for states, event, _ in table.rows for state in states]
    assert len(steps) == len(set(steps))

    start = steps[0][0]
    reached, ahead = {start}, [start]
    while ahead:
        state = ahead.pop()
        found = {table.after(state, event) for before, event in steps if before is state}
        ahead += found - reached
        reached |= found
    assert reached == set(type(start))

    for state in type(start):
        for event in type(steps[0][1]):
            if (state, event) not in steps:
                with pytest.raises(HfiSimError) as refused:
                    table.after(state, event)
                assert str(refused.value) == f'"{event.value}" cannot happen in state "{state.value}"'
