"""GET /capture on the control API of a lab: a pcapng file that grows while packets pass.

Query: on=PLACE (default *), count=N to end after so many packets, and matches as in a fault (l4=mad, vesw=2, ...).
What the reader does not take in time is missed, and said in interface statistics blocks; the fabric does not wait.

    curl -sN --unix-socket CONTROL_SOCKET 'http://lab/capture?on=h1' | tshark -r -
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from aiohttp import web

from hfi_sim.faults import parse_match
from opavnic.lab.connections import MAX_FOLLOWERS, while_read
from opavnic.lab.errors import LabInputError, TooManyError
from opavnic.observe.capture import Capture
from opavnic.observe.pcapng import PcapngWriter

if TYPE_CHECKING:
    from opavnic.lab.lab import Lab

CONTENT_TYPE: Final = "application/x-pcapng"
_MAX_DIGITS: Final = 12


def routes(lab: Lab) -> list[web.RouteDef]:
    """Return the routes for the control API of a lab."""

    running = 0

    async def capture(request: web.Request) -> web.StreamResponse:
        nonlocal running
        if running >= MAX_FOLLOWERS:
            raise TooManyError(f"{MAX_FOLLOWERS} captures run: a lab has no more; end one of them")
        running += 1
        try:
            return await _stream(request, lab)
        finally:
            running -= 1

    return [web.get("/capture", capture)]


async def _stream(request: web.Request, lab: Lab) -> web.StreamResponse:
    query = dict(request.query)
    place, count = query.pop("on", "*"), _count(query.pop("count", ""))
    match = parse_match(f"{key}={value}" for key, value in query.items())
    news = asyncio.Event()
    epoch_s = time.time() - asyncio.get_running_loop().time()
    capture = Capture(lab.world.fabric, place, match, epoch_s=epoch_s, on_packet=news.set)
    response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
    try:
        _tell_native(lab)
        await response.prepare(request)
        await _write(request, response, capture, news, count)
        await response.write_eof()
    except ConnectionError:
        pass  # the reader has left
    finally:
        capture.stop()
        _tell_native(lab)
    return response


async def _write(
    request: web.Request,
    response: web.StreamResponse,
    capture: Capture,
    news: asyncio.Event,
    count: int | None,
) -> None:
    """Write what comes until `count` packets are written or the reader is gone."""
    writer = PcapngWriter()
    await response.write(writer.head())
    missed = 0
    while count is None or count > 0:
        await while_read(request, news.wait())
        news.clear()
        records = capture.take()[:count]
        data = b"".join(map(writer.packet, records))
        if capture.missed > missed and records:
            missed = capture.missed
            data += writer.missed(records[-1].time_s, missed)
        await response.write(data)
        if count is not None:
            count -= len(records)


def _tell_native(lab: Lab) -> None:
    """Have Python carry what is looked at, and no longer what is not."""
    if lab.native is not None:
        lab.native.refresh()


def _count(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) > 0):
        raise LabInputError(f"count={text!r} is no number of packets, 1 or more")
    return int(text)
