"""How long the EM waits for an agent: what its ClassPortInfo says of its response time."""

from __future__ import annotations

import pytest

from vema.em.core.state import timeout_of


def test_timeout_doubles_with_each_step_of_the_response_time_and_has_an_end() -> None:
    steps = [timeout_of(value + 1) - timeout_of(value) for value in (0, 8, 18)]
    assert steps == [pytest.approx(4.096e-6 * 2**value, rel=1e-3) for value in (0, 8, 18)]
    assert timeout_of(31) == timeout_of(30) == 20.0
