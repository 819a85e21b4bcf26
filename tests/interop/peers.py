"""The real programs of EJFAT that these tests run, where this machine has them: E2SAR's, and ESnet's udplbd2."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

E2SAR_BIN = "OPAVNIC_E2SAR_BIN"
"""Directory with E2SAR's programs lbadm, e2sar_perf and e2sar_ft."""
UDPLBD2_BIN = "OPAVNIC_UDPLBD2_BIN"
"""Path of udplbd2's program, udplbd."""
UDPLBD2_SRC = "OPAVNIC_UDPLBD2_SRC"
"""Directory of udplbd2's sources: its stock configuration and its .proto files are read."""


def e2sar(program: str) -> str:
    """Return the path of a program of E2SAR; skip the test if none is named, fail it if there is none there."""
    return str(_there(_named(E2SAR_BIN) / program, E2SAR_BIN))


def reads_ipv6() -> bool:
    """Return whether this build of E2SAR reads a URI with an IPv6 address: built with Boost 1.81, it does not."""
    command = [e2sar("lbadm"), "-u", "ejfat://token@127.0.0.1:1/lb/1?data=[::1]", "--status"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return "Unable to parse the provided URI" not in done.stdout + done.stderr


def needs_ipv6() -> None:
    """Skip the test if this build of E2SAR cannot read a URI with an IPv6 address."""
    if not reads_ipv6():
        pytest.skip("this build of E2SAR reads no URI with an IPv6 address, as its control planes write them")


def udplbd() -> str:
    """Return the path of udplbd; skip the test if none is named, fail it if there is none there."""
    return str(_there(_named(UDPLBD2_BIN), UDPLBD2_BIN))


def udplbd2_source(path: str) -> Path:
    """Return a file of udplbd2's sources; skip the test if none are named, fail it if it is not there."""
    return _there(_named(UDPLBD2_SRC) / path, UDPLBD2_SRC)


def _named(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} names nothing (tests/interop/README.md)")
    return Path(value)


def _there(path: Path, variable: str) -> Path:
    # a wrong path must not look like a machine that has no such program
    if not path.is_file():
        pytest.fail(f"{variable}: there is no file {path}")
    return path
