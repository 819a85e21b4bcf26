"""`em apply` over the control API: too much is refused at once, and the lab goes on while the rest is checked."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from typing import Any

import pytest
from aiohttp import ClientSession

from lab_in_memory import lab_in_memory
from opavnic.lab.file.errors import LabError
from opavnic.lab.run.lab import Lab
from opavnic.management import em_service
from opavnic.world import json_body
from opavnic.world.json_body import MAX_BODY, MAX_VALUES
from vema.em.core.core import EmCore
from vema.em.desired import desired, ports

TEXT = """
name: em-lab
hosts: {h1: {}, h2: {}}
vesws:
  - {id: 2, name: blue, members: [h1, h2]}
"""
RIGHT = {"vesws": [{"id": 3, "name": "red", "pkey": 0x8001, "members": ["h1"]}]}


async def post(http: ClientSession, **body: Any) -> tuple[int, dict[str, Any]]:
    async with http.post("/em/apply?diff=1", **body) as response:
        return response.status, await response.json()


async def test_others_are_answered_while_a_configuration_is_checked(
    http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop, parse_config = asyncio.get_running_loop(), desired.parse_config

    def slow(data: object) -> desired.EmConfig:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(60)
        return parse_config(data)

    monkeypatch.setattr(ports, "parse_config", slow)
    applying = asyncio.ensure_future(post(http, json=RIGHT))
    try:
        await begun.wait()
        async with http.get("/em/vesws") as response:
            assert [row["name"] for row in (await response.json())["vesws"]] == ["blue"]
        assert not applying.done()
    finally:
        go_on.set()
    status, answer = await applying
    assert (status, answer["changes"][0]) == (200, "+ h1:1: new vport on red (3)")


async def test_more_virtual_switches_than_ids_are_refused_in_one_line(http: ClientSession) -> None:
    status, answer = await post(http, json={"vesws": [{"id": 1}] * 4096})
    assert status == 422
    assert answer["problems"] == [
        {
            "path": ["vesws"],
            "message": "4096 virtual switches; an id has 12 bits, so a fabric has at most 4095",
        }
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b" " * (MAX_BODY + 1), f"the body has more than {MAX_BODY} bytes: no configuration has as many"),
        (
            b"[" + b"1," * MAX_VALUES,
            f"the body has more than {MAX_VALUES} values: no configuration has as many",
        ),
        (b"[" * (MAX_VALUES // 2), "the body is not JSON"),
        (b"9" * 5000, "the body is not JSON"),
        (b"\xff{}", "the body is not JSON"),
        (b'{"vesws": [{"id": NaN}]}', "the body is not JSON: NaN is not a number in JSON"),
    ],
)
async def test_body_of_the_wrong_form_or_size_is_refused_in_one_line(
    http: ClientSession, body: bytes, said: str
) -> None:
    status, answer = await post(http, data=io.BytesIO(body))
    assert status == 400
    assert answer["error"].startswith(said)


async def test_character_set_that_nobody_knows_does_not_matter(http: ClientSession) -> None:
    headers = {"Content-Type": "application/json; charset=no-such"}
    status, _ = await post(http, data=b'{"vesws": []}', headers=headers)
    assert status == 200


async def test_fabric_that_changes_while_a_configuration_is_checked_is_no_internal_error(
    lab: Lab, http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(data: object, roster: ports.Roster) -> ports.Checked:
        found = ports.checked(data, roster)
        for hfi in lab.world.hosts["h1"].hfis:
            hfi.ports[1].set_pkeys([0x8009])
        return found

    monkeypatch.setattr(em_service, "checked", judged)
    async with http.post("/em/apply", json=RIGHT) as response:
        assert response.status == 422
        assert "pkey 0x8001 is not in the table of h1:1" in (await response.json())["error"]


async def test_large_body_is_read_beside_the_loop(
    http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[bool] = []
    loads = json.loads

    def noted(*args: Any, **options: Any) -> Any:
        where.append(threading.current_thread() is threading.main_thread())
        return loads(*args, **options)

    monkeypatch.setattr(json_body.json, "loads", noted)
    for padding in (0, 1 << 18):
        async with http.post("/em/apply?diff=1", data=b'{"vesws": []}' + b" " * padding) as response:
            assert response.status == 200
    monkeypatch.undo()
    assert where == [True, False]


async def test_refusal_with_very_many_mistakes_lists_a_hundred(http: ClientSession) -> None:
    keys = {f"key{chr(97 + n // 26)}{chr(97 + n % 26)}": {"none": 0} for n in range(300)}
    status, answer = await post(http, json={**keys, "vesws": []})
    assert status == 422
    assert len(answer["problems"]) == len(answer["error"].splitlines()) == 101
    assert answer["problems"][-1] == {"path": [], "message": "... and 200 more"}


async def test_refusal_of_a_mistake_that_repeats_is_one_line(http: ClientSession) -> None:
    status, answer = await post(http, json={"vesws": [{"id": 0, "name": f"v{n}"} for n in range(200)]})
    assert status == 422
    told = "should be greater than or equal to 1, not 0; and 199 more like it: vesws[1].id, "
    assert [one["message"] for one in answer["problems"] if one["message"].startswith(told)] != []
    assert len(answer["problems"]) < 6


@pytest.mark.breaks_core
async def test_manager_that_has_failed_is_said_by_every_command_and_by_the_status(
    lab: Lab, http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not lab.status().parts
    assert lab.manager is not None

    def broken(*_: object) -> None:
        raise KeyError("vport 7")

    monkeypatch.setattr(lab.manager.em.core, "answer", broken)
    text = "the Ethernet Manager has failed (KeyError: 'vport 7'); the log says where"
    config = {"vesws": [{"id": 2, "name": "blue", "pkey": 0x8001, "members": ["h1", "h2"], "mtu": 9000}]}
    for path in ("/em/apply", "/em/verify"):
        async with http.post(path, json=config) as response:
            assert (response.status, (await response.json())["error"]) == (409, text)
    assert lab.status().parts["Ethernet Manager"] == {"failed": "KeyError: 'vport 7'"}


@pytest.mark.breaks_core
@pytest.mark.usefixtures("own_runtime")
async def test_lab_whose_manager_fails_at_once_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("vport 7")

    monkeypatch.setattr(EmCore, "answer", broken)
    lab = lab_in_memory(TEXT)
    with pytest.raises(LabError, match=r"the Ethernet Manager has failed \(KeyError: 'vport 7'\)"):
        await lab.start()
    await lab.stop()


async def ask_restart(http: ClientSession, **body: Any) -> tuple[int, dict[str, Any]]:
    async with http.post("/em/restart", json=body) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("memory", [True, False])
async def test_restart_sends_no_set_and_keeps_events_with_its_memory_alone(
    http: ClientSession, memory: bool
) -> None:
    async with http.get("/em/events") as response:
        before = (await response.json())["events"]
    assert await ask_restart(http, memory=memory) == (200, {"sets": 0, "converged": True})
    async with http.get("/em/events") as response:
        after = (await response.json())["events"]
    assert (after[: len(before)] == before) is memory
    assert await ask_restart(http, memory="no") == (
        400,
        {"error": "memory: 'no' is not true or false: whether its database survives; default: true"},
    )


async def test_manager_that_a_fault_holds_down_says_so_until_the_fault_ends(http: ClientSession) -> None:
    async with http.post("/faults", json={"fault": "crash on em"}) as response:
        assert response.status == 200
    for path in ("/em/vesws", "/em/vports", "/em/events"):
        async with http.get(path) as response:
            answer = await response.json()
        assert answer == {"error": "the Ethernet Manager is down: fault 1, crash on em"}
    status, answer = await ask_restart(http)
    assert status == 409
    assert answer["error"].endswith("crash on em; opavnic fault remove 1 starts it")
    async with http.post("/faults/remove", json={"number": None}) as response:
        assert response.status == 200
    async with http.post("/em/verify") as response:
        assert await response.json() == {"differences": []}
