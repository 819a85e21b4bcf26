"""Work that takes long and must not hold up the fabric: done in steps, between which the event loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from typing import TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""A generator that yields after a few milliseconds of work and returns the result."""


def at_once(steps: Steps[Result]) -> Result:
    """Take all steps and return the result."""
    result: list[Result] = []
    for _ in _keeping(steps, result):
        pass
    return result[0]


async def in_turns(steps: Steps[Result]) -> Result:
    """Take all steps, yielding to the event loop after each, and return the result."""
    result: list[Result] = []
    for _ in _keeping(steps, result):
        await asyncio.sleep(0)
    return result[0]


def _keeping(steps: Steps[Result], result: list[Result]) -> Iterator[None]:
    result.append((yield from steps))
