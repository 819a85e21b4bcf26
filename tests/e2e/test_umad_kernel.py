"""Our umad device beside the kernel's own, and the Ethernet Manager on the latter. Needs `opavnic kernel build`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Program
from opavnic.devices.kernel.entry import why_no_fuse
from permission import require_kernel
from processes import child

CALLS = Path(__file__).with_name("umad_calls.py")
COUNT = 500
LAB = """name: {name}
hosts: {{h1: {{may_manage: true}}, h2: {{}}, k1: {{kernel: opa_vnic, may_manage: true}}, k2: {{kernel: opa_vnic}}}}
em: external
vesws: [{{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: all}}]
"""
EM = {"mac": "learn", "vesws": [{"id": 2, "name": "blue", "pkey": 0x8002, "members": ["h[1-2]", "k[1-2]"]}]}
ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as to:
    to.connect(sys.argv[1])
    to.sendall(f"{sys.argv[2]} HTTP/1.1\\r\\n\\r\\n".encode())
    answer = b""
    while data := to.recv(65536):
        answer += data
print(answer.partition(b"\\r\\n\\r\\n")[2].decode())
"""
"""A client of the manager that fits beside it into the memory of a kernel host."""


class KernelSite:
    """TAP hosts and kernels without a manager."""

    def __init__(self, opavnic: Program) -> None:
        require_kernel()
        if reason := why_no_fuse():
            pytest.skip(reason)
        self.opavnic, self.ok = opavnic, opavnic.ok
        opavnic.up(LAB.format(name=f"ku{os.getpid()}"))

    def calls(self, host: str, seed: int, *options: str) -> list[Any]:
        said = self.ok(
            "exec", *options, host, "--", sys.executable, CALLS, str(seed), str(COUNT), timeout=200
        )
        return [json.loads(line) for line in said.splitlines()]


@pytest.fixture
def site(opavnic: Program) -> KernelSite:
    return KernelSite(opavnic)


@pytest.mark.parametrize("seed", [1, 2, pytest.param(range(3, 41), marks=pytest.mark.long)])
def test_random_calls_do_the_same_at_our_device_and_at_the_kernels(
    site: KernelSite, seed: int | range
) -> None:
    for one in [seed] if isinstance(seed, int) else seed:
        ours, theirs = site.calls("h1", one, "--umad"), site.calls("k1", one)
        assert len(ours) == COUNT
        for at, (call, other) in enumerate(zip(ours, theirs, strict=True)):
            assert call == other, f"seed {one}, call {at}"


def test_manager_on_the_kernels_own_umad_configures_kernels_and_hosts(
    site: KernelSite, tmp_path: Path
) -> None:
    config, socket = tmp_path / "em.yaml", "/dev/shm/em.sock"  # noqa: S108 - of the kernel host alone
    config.write_text(json.dumps(EM))
    start = [sys.executable, "-c", "from opavnic.cli.start import start; start()"]
    command = [*start, "exec", "k1", "--", *start, "em", "run", str(config), "--control", socket]
    with child(command, stdout=-3, stderr=-1, env=site.opavnic.environment) as process:
        wanted = {f"[{host}:1 vport 1] link-up" for host in ("h1", "h2", "k1", "k2")}
        said = []
        while wanted:
            line = process.stderr.readline()
            assert line, said
            said.append(line)
            wanted = {one for one in wanted if one not in line}
        for one, other in (("h1", "k1"), ("k1", "h2"), ("k2", "k1")):
            site.ok("exec", one, "--", "ping", "-c1", "-w30", other)

        def ask(what: str) -> dict[str, Any]:
            return dict(
                json.loads(site.ok("exec", "k1", "--", sys.executable, "-I", "-S", "-c", ASK, socket, what))
            )

        state = ask("GET /em/state")
        assert (state["role"], state["vports"]) == ("master", 4)
        assert state["program"]["mads_timed_out"] == 0
        assert ask("POST /em/verify") == {"differences": []}
