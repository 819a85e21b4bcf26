"""Helpers of e2e tests: wait for the kernel, run the system's own tools beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path


async def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """Wait for something that the kernel does in its own time."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"never came true: {what}"
        await asyncio.sleep(0.01)


async def ip(namespace: Path, *arguments: str) -> None:
    """Run `ip ARGUMENTS` in a namespace while the event loop goes on; it must succeed."""
    await program("ip", "-n", namespace.name, *arguments)


async def program(*command: str) -> str:
    """Run a program while the event loop goes on and return what it printed; it must succeed."""
    process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-2)
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, f"{command}: {output.decode()}"
    return str(output.decode())
