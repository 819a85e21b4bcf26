"""Serves the pages of one lab on an address of the loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from typing import Final
from urllib.parse import urlencode

import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import HTMLResponse, StreamingResponse
from nicegui import background_tasks, ui

from opavnic.lab.file.errors import LabError
from opavnic.observe.capture_copy import NUMBER_HEADER
from opavnic.observe.pages import COLOURS, PARTS_STYLE
from opavnic.observe.timeline import SCRIPT
from opavnic.web.guard import Guard
from opavnic.web.pages.fabric import FabricPage
from opavnic.web.pages.frame import Look
from opavnic.web.pages.packets import PacketsPage, mads_page
from opavnic.web.pages.part import PartView, parts_page
from opavnic.web.pages.timeline import TimelinePage, saved_run
from opavnic.web.pages.vnics import vnic_page, vnics_page
from opavnic.web.pages.watch import Watch

CAPTURE_MAX_S: Final = 3600
STYLE: Final = files("opavnic.web.pages").joinpath("style.css").read_text()
_FILL_S: Final = 0.1
"""How long a page waits for the first look at its lab."""
_BUILD_S: Final = 120.0
"""How long a page may take on a machine whose processors are busy; the library's 3 s end in an error page."""
_RECONNECT_S: Final = 20.0
"""How long a browser that does not answer keeps its page; after the library's 3 s a busy one would load it anew."""
_CHUNK: Final = 1 << 16


def application(watch: Watch, lab: str) -> FastAPI:
    """Return the pages of a lab as an application, not guarded yet. The library allows one for each process."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    page = partial(ui.page, response_timeout=_BUILD_S)

    @app.get("/capture.pcapng")
    async def capture(on: str, seconds: int = 10) -> StreamingResponse:
        if not 0 < seconds <= CAPTURE_MAX_S:
            raise HTTPException(400, f"seconds={seconds} is not 1 to {CAPTURE_MAX_S}")
        try:
            stream = await asyncio.to_thread(watch.stream, "/capture?" + urlencode({"on": on}))
        except LabError as error:
            raise HTTPException(400, str(error)) from None
        number = int(stream.headers[NUMBER_HEADER])

        async def end() -> None:
            """End the capture in time; it may have ended because the lab or the browser has gone."""
            await asyncio.sleep(seconds)
            await watch.change("/capture/end", {"number": number})

        ending = asyncio.ensure_future(end())

        loop = asyncio.get_running_loop()

        def chunks() -> Iterator[bytes]:
            try:
                while data := stream.read1(_CHUNK):
                    yield data
            finally:
                stream.close()
                loop.call_soon_threadsafe(ending.cancel)

        answer = StreamingResponse(chunks(), media_type="application/x-pcapng")
        answer.headers["content-disposition"] = f'attachment; filename="{lab}.pcapng"'
        return answer

    @app.get("/run.html")
    async def run() -> HTMLResponse:
        try:
            text = await saved_run(watch)
        except LabError as error:
            raise HTTPException(400, str(error)) from None
        return HTMLResponse(text, headers={"content-disposition": f'attachment; filename="{lab}.html"'})

    looks: dict[str, Callable[[], Look]] = {
        "/": lambda: FabricPage(watch).look,
        "/vnics": lambda: vnics_page(watch),
        "/packets": lambda: PacketsPage(watch).look,
        "/mads": lambda: mads_page(watch),
        "/timeline": lambda: TimelinePage(watch).look,
        "/parts": lambda: parts_page(watch),
    }

    def serve_page(path: str, make: Callable[[], Look]) -> None:
        @page(path)
        async def filled() -> None:
            await _filled(make())

    for path, make in looks.items():
        serve_page(path, make)

    @page("/vnic/{host}/{interface}")
    async def vnic(host: str, interface: str) -> None:
        await _filled(vnic_page(watch, host, interface))

    @page("/part/{name}")
    async def part(name: str) -> None:
        found = {each.name: each for each in watch.part_pages}
        if name not in found:
            raise HTTPException(404, f"no package installed here has a page {name!r}")
        await _filled(PartView(watch, found[name]).look)

    ui.add_css(COLOURS + PARTS_STYLE + STYLE, shared=True)
    ui.add_head_html(f"<script>{SCRIPT}</script>", shared=True)
    ui.run_with(
        app,
        title=f"{lab} - opavnic",
        language="en-US",
        dark=None,
        tailwind=False,
        reconnect_timeout=_RECONNECT_S,
        gzip_middleware_factory=partial(GZipMiddleware, compresslevel=1),
        show_welcome_message=False,
    )
    return app


async def _filled(look: Look) -> None:
    """Look at the lab before the page is sent; where that takes long, while the browser reads its scripts."""
    client = ui.context.client

    async def fill() -> None:
        with client:
            await look()

    await asyncio.wait({background_tasks.create(fill(), name="first look")}, timeout=_FILL_S)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises LabError: the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(64)
    except OSError as error:
        sock.close()
        raise LabError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return sock


def hosts_of(host: str, port: int) -> set[str]:
    """Return what browsers may call an address that is served."""
    names = {f"[{host}]" if ":" in host else host, "localhost"}
    return {f"{name}:{port}" for name in names}


def serve(app: FastAPI, sock: socket.socket, token: str) -> None:
    """Serve until SIGINT or SIGTERM, which the caller then gets."""
    host, port = sock.getsockname()[:2]
    guarded = Guard(app, token, hosts_of(host, port))
    config = uvicorn.Config(
        guarded, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=1
    )
    uvicorn.Server(config).run(sockets=[sock])
