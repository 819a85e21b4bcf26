"""The control plane of a lab, reached by programs on its hosts over TCP, with and without TLS."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.ejfat_commands import namespace_of, run_ejfat_beside
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.lab import Lab

pytestmark = pytest.mark.timeout(300)
CHECKS = [
    "control plane", "senders", "addresses", "workers", "next hop", "tables", "in effect", "loss", "events", "ports",
    "health",
]  # fmt: skip
FILE = """
name: ejfat-control-{pid}
hosts: {{lb: {{}}, w1: {{}}}}
vesws:
  - {{id: 7, name: daq, subnet: 10.7.0.0/24, members: [lb, w1]}}
apps:
  - {{kind: ejfat-lb, host: lb, options: {{port: 18123{options}}}}}
em: {{}}
"""


def certificate(directory: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    command += " -subj /CN=localhost -addext subjectAltName=DNS:localhost -out cert.pem -keyout key.pem"
    subprocess.run(command.split(), check=True, capture_output=True, timeout=60, cwd=directory)


@pytest.mark.parametrize("tls", [False, True])
async def test_program_on_a_host_reaches_the_control_plane_with_the_uri_alone(
    tmp_path: Path, tls: bool
) -> None:
    options, trust = "", []
    if tls:
        certificate(tmp_path)
        options = f", tls_cert: {tmp_path}/cert.pem, tls_key: {tmp_path}/key.pem"
        trust = ["--ca", str(tmp_path / "cert.pem")]
    text = FILE.format(pid=os.getpid(), options=options)
    async with Lab(parse_lab(text, str(tmp_path / "x.yaml"))) as lab:
        (status,) = lab.status().apps
        app = status.said
        assert app["uri"].startswith("ejfats://" if tls else "ejfat://")
        assert "@localhost:18123/" in app["uri"]
        w1 = namespace_of(lab, "w1")
        asked = await run_ejfat_beside(w1, "admin", "status", "--json", "--uri", app["uri"], *trust)
        assert asked.returncode == 0, asked.stderr
        assert json.loads(asked.stdout)["slotResolution"] == 512
        own = ["--address", "10.7.0.2", "--json", "--uri", app["uri"], *trust]
        checked = await run_ejfat_beside(w1, "doctor", *own)
        told = json.loads(checked.stdout)
        assert told["ok"], told
        assert [one["check"] for one in told["checks"]] == CHECKS
        stranger = ["--address", "10.7.0.99", "--uri", app["uri"], *trust]
        refused = await run_ejfat_beside(w1, "doctor", *stranger)
        assert refused.returncode == 1
        assert "FAIL senders: 10.7.0.99 among 10.7.0.2" in refused.stdout
        if tls:
            unknown = await run_ejfat_beside(w1, "admin", "status", "--uri", app["uri"])
            assert unknown.returncode == 1, "the certificate is not one that the system trusts"


async def test_tls_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    text = FILE.format(pid=os.getpid(), options=f", tls_cert: {tmp_path}/no.pem, tls_key: {tmp_path}/no.pem")
    with pytest.raises(LabError, match=r"no\.pem"):
        async with Lab(parse_lab(text, str(tmp_path / "x.yaml"))):
            pass


async def test_doctor_right_after_a_run_of_another_worker_waits_until_its_own_slots_are_in_effect(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").write_bytes(bytes(50_000))
    async with Lab(parse_lab(FILE.format(pid=os.getpid(), options=""), str(tmp_path / "x.yaml"))) as lab:
        (status,) = lab.status().apps
        app = status.said
        w1, there = namespace_of(lab, "w1"), ["--uri", app["uri"]]
        worker = ["recv", "--listen", "10.7.0.2:20000", "--duration", "2500ms", *there]
        sender = ["send", "--rate", "50", "--event-size", "1000", *there, str(tmp_path / "data")]
        received, sent = await asyncio.gather(run_ejfat_beside(w1, *worker), run_ejfat_beside(w1, *sender))
        assert (received.returncode, sent.returncode) == (0, 0), received.stderr
        own = ["--address", "10.7.0.2", "--json", "--events", "50", *there]
        checked = await run_ejfat_beside(w1, "doctor", *own)
        told = json.loads(checked.stdout)
        assert told["ok"], told
