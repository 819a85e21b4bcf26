"""Commands of `opavnic ejfat` in network namespaces: a process each, without the start of an interpreter."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic.lab.run.lab import Lab
from program import Forked, run_program, started


def namespace_of(lab: Lab, host: str) -> str:
    """Return the name of a host's namespace."""
    namespace = lab.host(host).namespace
    assert namespace is not None, f"{host} is in memory"
    return namespace.name


def start_ejfat(netns: str, *arguments: str | Path, **options: Any) -> Forked:
    """Start `opavnic ejfat ARGUMENTS` in a namespace; options are those of subprocess.Popen."""
    return Forked(["ejfat", *arguments], namespaces=[NETNS_DIR / netns], **options)


@contextlib.contextmanager
def ejfat(netns: str, *arguments: str | Path, **options: Any) -> Iterator[Forked]:
    """Run `opavnic ejfat ARGUMENTS` in a namespace for as long as the context lasts; then it is killed."""
    with started(["ejfat", *arguments], namespaces=[NETNS_DIR / netns], **options) as command:
        yield command


def run_ejfat(netns: str, *arguments: str | Path, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run `opavnic ejfat ARGUMENTS` in a namespace."""
    return run_program(["ejfat", *arguments], os.environ, namespaces=[NETNS_DIR / netns], timeout=timeout_s)


async def run_ejfat_beside(netns: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `opavnic ejfat ARGUMENTS` in a namespace while the event loop goes on."""
    return await asyncio.to_thread(run_ejfat, netns, *arguments)
