"""A capture over the control API of a lab: a pcapng file that grows, and nothing left when its reader leaves."""

from __future__ import annotations

import asyncio
import io

import pytest
from aiohttp import ClientSession

from hfi_sim.trace import TraceRecord
from opavnic.lab.lab import Lab
from opavnic.observe import capture
from opavnic.observe.capture import Capture
from opavnic.observe.trace_file import TraceReader
from opavnic.world import connections
from opavnic.world.parts.capture import CONTENT_TYPE

TEXT = """
name: capture-lab
hosts: {h1: {}, h2: {}}
vesws:
  - {id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}
"""


async def ping(lab: Lab) -> bool:
    h1, h2 = (lab.interface(name, "blue") for name in ("h1", "h2"))
    assert h1.memory_host is not None
    answers = await h1.memory_host.ping(h2.address.ip, 1, 5.0)  # type: ignore[union-attr,arg-type]
    return answers == 1


def observers(lab: Lab) -> int:
    return sum(lab.world.fabric.is_observed(link) for link in lab.world.fabric.links)


def records(data: bytes) -> list[TraceRecord]:
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
    assert observers(lab) == 0


async def test_reader_that_leaves_ends_the_capture_though_nothing_passes(
    lab: Lab, http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOOK_S", 0.01)
    stopped, stop = asyncio.Event(), Capture.stop

    def stop_and_tell(self: Capture) -> None:
        stop(self)
        stopped.set()

    monkeypatch.setattr(Capture, "stop", stop_and_tell)
    async with http.get("/capture?l4=0x55") as answer:
        await answer.content.readexactly(28)  # a section block
        assert observers(lab) == len(lab.world.fabric.links)
    await asyncio.wait_for(stopped.wait(), 30)
    assert observers(lab) == 0


async def test_reader_that_does_not_read_makes_nobody_wait(
    lab: Lab, http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "MAX_WAITING", 200)
    async with http.get("/capture?on=h1->sw0&count=2") as answer:
        port, driver = lab.world.hosts["h1"].port, lab.world.fabric.driver
        for _ in range(5):  # at once, before anything can be taken
            driver.inject(port.number, bytes(7) + b"\xc0" + b"\x55" + bytes(91), port.lid, 1, 0xFFFF)
        first = records(await answer.read())
    assert len(first) == 2


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("on=h7", 'unknown link, port or node "h7"'),
        ("on=h1&vsw=2", 'unknown match "vsw"'),
        ("count=0", "count='0' is not a number of packets"),
        ("count=%C2%B2", "is not a number of packets"),
        ("count=" + "9" * 40, "is not a number of packets"),
        ("l4=", "unknown L4 type"),
    ],
)
async def test_capture_that_makes_no_sense_is_refused(
    lab: Lab, http: ClientSession, query: str, reason: str
) -> None:
    async with http.get(f"/capture?{query}") as answer:
        assert answer.status == 400
        assert reason in (await answer.json())["error"]
    assert observers(lab) == 0
