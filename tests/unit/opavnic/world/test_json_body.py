"""Long answers of the control API: the same JSON, written while the loop serves others."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from lab_in_memory import lab_in_memory
from opavnic.lab.run.daemon import lab_routes
from opavnic.lab.run.logs import LogHub
from opavnic.world import json_body


async def test_long_answer_leaves_turns_of_the_loop_to_others() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    busy = asyncio.ensure_future(others())
    answer = await json_body.json_answer({"rows": ({"n": n} for n in range(1000))})
    busy.cancel()
    assert turns >= 3
    assert answer.text == json.dumps({"rows": [{"n": n} for n in range(1000)]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON))
def test_answer_in_pieces_is_the_same_json(data: dict[str, Any]) -> None:
    assert asyncio.run(json_body.json_answer(data)).text == json.dumps(data)


HOSTS, VESWS = 16, 200
MEMBERS = ", ".join(f"h{n}" for n in range(HOSTS))
LARGE = (
    f"name: large\nem: external\nhosts: {{{', '.join(f'h{n}: {{}}' for n in range(HOSTS))}}}\nvesws:\n"
    + "\n".join(f"- {{id: {n}, name: v{n}, members: [{MEMBERS}]}}" for n in range(1, VESWS + 1))
)


@pytest.mark.parametrize("query", ["", "?counters=1"])
@pytest.mark.usefixtures("own_runtime")
async def test_status_of_a_large_lab_leaves_turns_of_the_loop_to_others(query: str, tmp_path: Path) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with lab_in_memory(LARGE) as lab:
        hub = LogHub(tmp_path / "log")
        (status,) = (route for route in lab_routes(lab, hub, lab.stop) if route.path == "/status")
        busy = asyncio.ensure_future(others())
        answer = await status.handler(make_mocked_request("GET", f"/status{query}"))
        busy.cancel()
        expected = lab.status(counters=bool(query)).as_json()
        hub.close()
    assert isinstance(answer, web.Response)
    assert isinstance(answer.body, bytes)
    assert turns >= len(answer.body) / (256 << 10) + HOSTS >= HOSTS + 2
    found = json.loads(answer.body)
    assert list(found) == list(expected)
    assert len([vnic for host in found["hosts"] for vnic in host["vnics"]]) == HOSTS * VESWS
    assert found | {"uptime_s": 0} == expected | {"uptime_s": 0}
