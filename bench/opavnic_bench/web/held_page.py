"""A page of the web view as if open in a browser elsewhere: its updates are taken, and nothing is drawn here.

What the lab and `opavnic web` do for such a page is what they do for any; what a browser does is not done.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from opavnic_bench.base.turns import BenchError

_CLIENT: Final = re.compile(r"'client_id': '([0-9a-f-]+)'")
_SOCKET: Final = "/_nicegui_ws/socket.io"
_READY: Final = "open\n"


@contextlib.contextmanager
def held_page(url: str) -> Iterator[int]:
    """Have the page open in a process of its own; gives its pid. Raises BenchError: it does not come up."""
    process = subprocess.Popen(
        [sys.executable, "-m", "opavnic_bench.web.held_page", url], text=True, stdout=subprocess.PIPE
    )
    try:
        if process.stdout is None or process.stdout.readline() != _READY:
            raise BenchError("the web view did not take a page that is held open")
        yield process.pid
    finally:
        process.terminate()
        process.communicate()


async def hold(url: str) -> None:
    """Open the page, say so, and take its updates until the server ends."""
    import socketio  # what the web view's library serves pages with: there where a web view is

    client = socketio.AsyncClient(reconnection=False)
    cookies = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    with opener.open(url) as answer:
        found = _CLIENT.search(answer.read().decode())
    if found is None:
        raise BenchError("the page has no address of its updates")
    query = {"client_id": found[1], "next_message_id": 0, "document_id": str(uuid4()), "tab_id": str(uuid4())}

    async def take(_: object, message: dict[str, Any]) -> None:
        """Say that an update has come, as a page does, so that the server does not keep it."""
        if "_id" in message:
            await client.emit("ack", {"client_id": query["client_id"], "next_message_id": message["_id"] + 1})

    client.on("*", take)
    origin = "http://" + urlsplit(url).netloc
    headers = {"Origin": origin, "Cookie": "; ".join(f"{one.name}={one.value}" for one in cookies)}
    await client.connect(
        f"{origin}?{urlencode(query)}", headers, transports=["websocket"], socketio_path=_SOCKET
    )
    if not await client.call("handshake", query):
        raise BenchError("the page was not known any more")
    sys.stdout.write(_READY)
    sys.stdout.flush()
    await client.wait()


if __name__ == "__main__":
    import asyncio

    asyncio.run(hold(sys.argv[1]))
