"""A capture over the control API of a lab: a pcapng file that grows, and nothing left when its reader leaves."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from aiohttp import ClientSession

from hfi_sim.fabric.notices import TracedPacket
from hfi_sim.wire.captures import read_capture
from lab_in_memory import pings
from opavnic.lab.run.lab import Lab
from opavnic.observe.capture import Capture
from opavnic.observe.capture_copy import NUMBER_HEADER
from opavnic.observe.trace_file import TraceReader
from opavnic.world.connections import MAX_FOLLOWERS
from opavnic.world.parts.capture import CONTENT_TYPE

TEXT = """
name: capture-lab
hosts: {h1: {}, h2: {}}
vesws:
  - {id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}
"""


async def ping(lab: Lab) -> bool:
    return await pings(lab, "h1", "h2") == 1


def records(data: bytes) -> list[TracedPacket]:
    return list(TraceReader(io.BytesIO(data)).records())


async def test_capture_ends_after_the_packets_that_were_asked_for(lab: Lab, http: ClientSession) -> None:
    async with http.get("/capture?on=h1&vesw=2&count=4") as answer:
        assert (answer.status, answer.content_type) == (200, CONTENT_TYPE)
        assert await ping(lab)
        assert await ping(lab)
        found = records(await answer.read())
    assert len(found) == 4
    assert {record.direction for record in found} == {"h1:1->sw0:2", "sw0:2->h1:1"}
    assert {record.packet[8] for record in found} == {0x78}


async def test_reader_that_leaves_ends_the_capture_though_nothing_passes(
    lab: Lab, http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, stop = asyncio.Event(), Capture.stop

    def stop_and_tell(self: Capture) -> None:
        stop(self)
        stopped.set()

    monkeypatch.setattr(Capture, "stop", stop_and_tell)
    async with http.get("/capture?l4=0x55") as answer:
        await answer.content.readexactly(28)  # a section block
    await asyncio.wait_for(stopped.wait(), 30)


def send(lab: Lab, count: int) -> None:
    """Let packets with L4 0x55 enter the link of h1, all at once."""
    port, driver = lab.world.hosts["h1"].port, lab.world.fabric.driver
    for _ in range(count):
        assert (
            driver.inject(port.number, bytes(7) + b"\xc0" + b"\x55" + bytes(91), port.lid, 1, 0x7FFF) is None
        )


async def test_reader_that_does_not_read_makes_nobody_wait_and_is_told_what_it_missed(
    lab: Lab, http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(*args: Any, **options: Any) -> Capture:
        return Capture(*args, **options | {"buffer_bytes": 400, "segment_bytes": 200})

    monkeypatch.setattr("opavnic.world.parts.capture_asked.Capture", small)
    async with http.get("/capture?on=h1->sw0&l4=0x55") as answer:
        send(lab, 7)  # before anything can be taken
        await end(http, answer.headers[NUMBER_HEADER])
        reader = TraceReader(io.BytesIO(await answer.read()))
    assert (len(list(reader.records())), reader.missed) == (2, 5)
    assert lab.status().balance == {}


async def end(http: ClientSession, number: str) -> None:
    async with http.post("/capture/end", json={"number": int(number)}) as done:
        assert done.status == 200


async def test_capture_that_is_told_to_end_has_all_that_entered_until_then(
    lab: Lab, http: ClientSession
) -> None:
    async with http.get("/capture?on=h1&l4=0x55&snap=40") as answer:
        send(lab, 5)
        await end(http, answer.headers[NUMBER_HEADER])
        send(lab, 1)
        found = list(read_capture(await answer.read()))
    assert [(len(packet.data), packet.wire_len) for packet in found] == [(40, 100)] * 5


async def test_capture_that_does_not_run_cannot_be_ended(lab: Lab, http: ClientSession) -> None:
    for number in (1, -1, "1", True, None, [1], 10**400):
        async with http.post("/capture/end", json={"number": number}) as done:
            assert done.status == 400
            assert "running" in (await done.json())["error"]


async def test_captures_are_limited_in_number(lab: Lab, http: ClientSession) -> None:
    answers = [await http.get("/capture?l4=0x55") for _ in range(MAX_FOLLOWERS)]
    async with http.get("/capture") as refused:
        assert (refused.status, (await refused.json())["error"][:2]) == (503, str(MAX_FOLLOWERS))
    for answer in answers:
        await end(http, answer.headers[NUMBER_HEADER])
        assert list(read_capture(await answer.read())) == []
    async with http.get("/capture?on=h1&vesw=2&count=1") as answer:
        assert await ping(lab)
        assert len(records(await answer.read())) == 1


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("on=h7", 'unknown link, port or node "h7"'),
        ("on=h1&vsw=2", 'unknown match "vsw"'),
        ("count=0", "count='0' is not a number of packets"),
        ("count=%C2%B2", "is not a number of packets"),
        ("count=" + "9" * 40, "is not a number of packets"),
        ("l4=", "unknown L4 type"),
        ("snap=0", "snap is 0; it is 1 to 256K bytes"),
        ("snap=257K", "snap is 257K"),
        ("snap=x", "'x' is not a size"),
        ("buffer=1M", "buffer is 1M; it is 2M to 64M bytes"),
        ("buffer=65M", "buffer is 65M"),
        ("once=yes", "once='yes' is neither true nor false"),
        ("on=sw0->h1&once=1", "no packet enters the fabric"),
    ],
)
async def test_capture_that_makes_no_sense_is_refused(
    lab: Lab, http: ClientSession, query: str, reason: str
) -> None:
    async with http.get(f"/capture?{query}") as answer:
        assert answer.status == 400
        assert reason in (await answer.json())["error"]
