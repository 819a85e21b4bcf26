"""The core of ejfat does no I/O, knows no time and no chance of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3] / "ejfat"
SHELLS = {
    "cli",
    "live",
    "lab",
    "grpc",
    "pb",
    "store.py",
    "pcap.py",
    "simulator.py",
    "conformance.py",
    "dissectors.py",
    "demo",
}
IO_MODULES = {
    "socket",
    "asyncio",
    "threading",
    "subprocess",
    "os",
    "fcntl",
    "time",
    "random",
    "select",
    "pathlib",
    "sqlite3",
    "grpc",
}
CORE = sorted(p for p in ROOT.rglob("*.py") if not set(p.relative_to(ROOT).parts) & SHELLS)


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_core_module_imports_no_io(path: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            imported.add(node.module.split(".")[0])
    assert imported & IO_MODULES == set()
