"""What makes Debian packages: the same tree makes the same bytes, and dpkg reads what they say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.release.debian import HOME, RELEASES, archive


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_package_is_that_of_its_tree_whoever_built_it_and_when(tmp_path: Path) -> None:
    def package(place: str, mode: int) -> Path:
        root = tmp_path / place / "tree"
        program = root / HOME / "bin/opavnic"
        program.parent.mkdir(parents=True, mode=mode)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o744)
        (root / HOME / "data").write_text("x")
        return archive(root, RELEASES[1], "1.2.3+deb13", 1_700_000_000, tmp_path / place)

    def asked(*words: str) -> str:
        return subprocess.run(["dpkg-deb", *words], capture_output=True, text=True, check=True).stdout

    one, other = package("a", 0o700), package("b", 0o775)
    assert one.read_bytes() == other.read_bytes()
    assert asked("--field", str(one), "Version", "Depends").splitlines() == [
        "Version: 1.2.3+deb13",
        "Depends: python3 (>= 3.13), python3 (<< 3.14), libc6 (>= 2.36), iproute2, iputils-ping",
    ]
    listed = {line.split()[-1]: line.split()[:2] for line in asked("--contents", str(one)).splitlines()}
    assert listed[f"./{HOME}/bin/opavnic"] == ["-rwxr-xr-x", "root/root"]
    assert listed[f"./{HOME}/data"] == ["-rw-r--r--", "root/root"]
