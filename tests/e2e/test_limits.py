"""Labs under limits of the system: what they need is got at once, or they say what is missing."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.conftest import Program
from opavnic.lab.file.loader import load_lab
from opavnic.lab.hosts.descriptors import OWN, needed

HOSTS = 60


@pytest.fixture
def lab_file(tmp_path: Path) -> Path:
    hosts = ", ".join(f"h{number}" for number in range(HOSTS))
    file = tmp_path / "lab.yaml"
    file.write_text(
        f"name: wide{os.getpid()}\nhosts: {{{hosts}}}\n"
        f"vesws: [{{id: 2, name: blue, subnet: 10.9.2.0/24, members: [{hosts}]}}]\n"
    )
    return file


@pytest.fixture
def soft_limit() -> Iterator[Callable[[int], None]]:
    """Lowers the soft limit of open files, which programs inherit, until the test ends."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_lab_of_60_hosts_runs_under_a_soft_limit_of_128_files(
    opavnic: Program, lab_file: Path, soft_limit: Callable[[int], None]
) -> None:
    soft_limit(128)
    status = opavnic.data("up", lab_file, "-d")
    assert [vnic["state"] for host in status["hosts"] for vnic in host["vnics"]] == ["up"] * HOSTS
    opavnic.on("h0", "ping", "-c1", "-W20", f"10.9.2.{HOSTS}")
    shown = opavnic("exec", "h0", "--", "sh", "-c", "ulimit -S -n")
    assert shown.stdout == "128\n"
    opened = len(os.listdir(f"/proc/{status['pid']}/fd"))
    most = needed(load_lab(lab_file))
    settled = most - 3 * HOSTS  # the sysctls of its VNICs are closed by and by
    assert settled - OWN <= opened < most - OWN // 2 or status["datapath"] == "python"
