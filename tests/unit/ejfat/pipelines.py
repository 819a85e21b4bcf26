"""Both implementations of the pipeline, for tests that hold for either."""

from __future__ import annotations

import pytest

from ejfat.pipeline import Pipeline
from ejfat.pipeline.native import NativePipeline
from ejfat.tables.schema import Dialect, TableSet
from native_module import needs_native

IMPLEMENTATIONS = [pytest.param("python"), pytest.param("native", marks=needs_native)]


def build(implementation: str, tables: TableSet | None = None) -> Pipeline:
    """Return a pipeline of that implementation."""
    return NativePipeline(tables) if implementation == "native" else Pipeline(tables)


def entries(tables: TableSet, dialect: Dialect) -> int:
    """Return how many entries the tables of one pipeline have."""
    return sum(len(table) for table in tables.of(dialect).values())
