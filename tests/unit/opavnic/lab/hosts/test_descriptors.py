"""The limit of open files: met at once or raised, and programs on hosts get the one that was there."""

from __future__ import annotations

from pathlib import Path

import pytest

from program import Forked

PROGRAM = """
import resource, subprocess, sys
sys.stdout.reconfigure(line_buffering=True)
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from opavnic.lab.hosts import descriptors
from opavnic.lab.file.errors import LabError
from opavnic.lab.run.lab import Lab
from opavnic.lab.file.model import LabModel

hosts = [f"h{{number}}" for number in range({hosts})]
lab = Lab(LabModel(name="wide", hosts=dict.fromkeys(hosts), vesws=[dict(id=1, name="blue", members=hosts)]))
try:
    lab.claim()
except LabError as error:
    print(error)
else:
    lab.release()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
told = "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
subprocess.run([sys.executable, "-c", told], preexec_fn=descriptors.for_programs(), check=True)
"""


def claim(tmp_path: Path, hosts: int, soft: int, hard: int) -> list[str]:
    """Return what a process with these limits says when it claims a lab of so many hosts."""
    (tmp_path / "claim.py").write_text(PROGRAM.format(hosts=hosts, soft=soft, hard=hard))
    environment = {"OPAVNIC_RUNTIME_DIR": str(tmp_path / "run")}
    with Forked((), module="claim", cwd=tmp_path, env=environment, stdout=-1, stderr=-1) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.splitlines()


def test_lab_beyond_the_hard_limit_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    said, ours, programs = claim(tmp_path, hosts=60, soft=256, hard=300)
    assert said == (
        "lab wide: 60 hosts with 60 VNICs need 548 open files, but the limit is 300: raise it first, as root with "
        "`ulimit -n 548` (in a systemd service with LimitNOFILE=548)"
    )
    assert (ours, programs) == ("256 300", "256 300")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("hosts", [2, 60])
def test_soft_limit_is_raised_for_the_lab_and_not_for_its_programs(tmp_path: Path, hosts: int) -> None:
    ours, programs = claim(tmp_path, hosts=hosts, soft=256, hard=4096)
    assert ours == "4096 4096"
    assert programs == "256 4096"


def test_soft_limit_that_is_the_hard_one_stays_for_programs_too(tmp_path: Path) -> None:
    assert claim(tmp_path, hosts=2, soft=512, hard=512) == ["512 512", "512 512"]
