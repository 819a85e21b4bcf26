"""Rules of the house that no linter knows: core modules do no I/O, modules stay short, public names are explained."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ["hfi_sim", "vema", "opavnic", "ejfat", "lnet", "bench/opavnic_bench"]
MODULES = sorted(itertools.chain.from_iterable((ROOT / name).rglob("*.py") for name in PACKAGES))
HAND_WRITTEN = [path for path in MODULES if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))]

IO_MODULES = {
    "socket", "asyncio", "threading", "subprocess", "os", "fcntl", "time", "random", "select", "selectors", "ctypes",
}  # fmt: skip
CORE = [
    "hfi_sim/wire/field.py",
    "hfi_sim/wire/header.py",
    "hfi_sim/wire/lrh16b.py",
    "hfi_sim/wire/l4.py",
    "hfi_sim/wire/icrc.py",
    "hfi_sim/wire/packet.py",
    "hfi_sim/mad/attributes.py",
    "hfi_sim/mad/header.py",
    "hfi_sim/mad/transactions.py",
    "hfi_sim/counters.py",
    "hfi_sim/conveyor.py",
    "hfi_sim/hfi.py",
    "hfi_sim/link.py",
    "hfi_sim/pkeys.py",
    "hfi_sim/routing",
    "hfi_sim/topology",
    "hfi_sim/faults",
    "hfi_sim/forwarding.py",
    "hfi_sim/random_stream.py",
    "hfi_sim/arbiter.py",
    "hfi_sim/lanes.py",
    "hfi_sim/trace.py",
    "hfi_sim/subnet_manager.py",
    "hfi_sim/switch.py",
    "vema/agent.py",
    "vema/attributes",
    "vema/traps.py",
    "vema/em/audit.py",
    "vema/em/core.py",
    "vema/em/desired.py",
    "vema/em/dialogue.py",
    "vema/em/election.py",
    "vema/em/groups.py",
    "vema/em/mac_tables.py",
    "vema/em/plan.py",
    "vema/em/problems.py",
    "vema/em/preview.py",
    "vema/em/persisted.py",
    "vema/em/state.py",
    "vema/em/store_rows.py",
    "vema/em/vport_queue.py",
    "opavnic/adapter.py",
    "opavnic/demux.py",
    "opavnic/encap.py",
    "opavnic/flow.py",
    "opavnic/lmac.py",
    "opavnic/mac_table.py",
    "opavnic/counters.py",
    "opavnic/mad_frames.py",
    "opavnic/observe/rates.py",
    "opavnic/lab/log_limits.py",
    "hfi_sim/text.py",
    "vema/em/messages.py",
    "ejfat/tables.py",
    "ejfat/pipeline",
    "hfi_sim/reliable/endpoint.py",
    "hfi_sim/reliable/header.py",
    "hfi_sim/reliable/receiver.py",
    "hfi_sim/reliable/sender.py",
    "lnet/bonding.py",
    "lnet/conns.py",
    "lnet/duplicate_filter.py",
    "lnet/dlc.py",
    "lnet/handshake.py",
    "lnet/lnd.py",
    "lnet/lnet_hdr.py",
    "lnet/lnetctl.py",
    "lnet/msg.py",
    "lnet/networks.py",
    "lnet/nid.py",
    "lnet/objects.py",
    "lnet/peer.py",
    "lnet/rdma.py",
    "lnet/recovery.py",
    "lnet/selftest.py",
    "lnet/targets.py",
]
MAX_LINES = 600


def _core_files() -> list[Path]:
    files: list[Path] = []
    for name in CORE:
        path = ROOT / name
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.exists() else []
    return files


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_core_list_names_what_exists() -> None:
    assert [name for name in CORE if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", _core_files(), ids=_name)
def test_core_module_imports_no_io(path: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            imported.add(node.module.split(".")[0])
    assert imported & IO_MODULES == set()


@pytest.mark.parametrize("path", HAND_WRITTEN, ids=_name)
def test_module_is_short_and_explained(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= MAX_LINES, f"{_name(path)}: split it by duty"
    assert path.name != "utils.py"
    tree = ast.parse(source)
    missing = [] if ast.get_docstring(tree) else ["module"]
    for node in tree.body:
        if isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                missing.append(node.name)
            if isinstance(node, ast.ClassDef):
                missing += [
                    f"{node.name}.{member.name}"
                    for member in node.body
                    if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not member.name.startswith("_")
                    and not ast.get_docstring(member)
                    and not _is_override_or_ndo(node, member)
                ]
    assert missing == []


def _is_override_or_ndo(owner: ast.ClassDef, member: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """An implementation of a method that its Protocol or base class explains needs no second explanation."""
    decorators = {
        getattr(decorator, "id", getattr(decorator, "attr", "")) for decorator in member.decorator_list
    }
    return (
        bool(owner.bases)
        or "overload" in decorators
        or "setter" in decorators
        or member.name.startswith("ndo_")
    )


def test_programs_of_tests_are_killed_on_the_way_out() -> None:
    """`with subprocess.Popen` waits for a program without end; `processes.child` ends it first."""
    tests = ROOT / "tests"
    found = [
        path for path in tests.rglob("*.py") if re.search(r"with (subprocess\.)?Popen\(", path.read_text())
    ]
    assert found == [tests / "processes.py"]
