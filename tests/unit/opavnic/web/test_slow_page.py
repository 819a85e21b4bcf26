"""A page on a machine that is busy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LATE = """
import asyncio, sys
from pathlib import Path
from fastapi.testclient import TestClient
from opavnic.web import server
from opavnic.web.pages.watch import Watch

built = server.FabricPage

def late(watch):
    page, loop = built(watch), asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + 30  # so long has it taken
    return page

server.FabricPage = late
with TestClient(server.application(Watch(Path(sys.argv[1])), "x")) as client:
    print(client.get("/").status_code)
"""


def test_page_that_takes_half_a_minute_to_build_is_sent(tmp_path: Path) -> None:
    pytest.importorskip("nicegui")
    command = [sys.executable, "-c", LATE, str(tmp_path / "no-lab")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "200\n", done.stderr
