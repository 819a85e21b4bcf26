"""Rules of the house that no linter knows: core modules do no I/O, modules stay short, public names are explained."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import re
import tomllib
from pathlib import Path

import pytest

from ejfat.base.errors import EjfatError
from hfi_sim.base.errors import HfiSimError
from lnet.base.errors import LnetError
from opavnic.base.errors import OpavnicError
from opavnic_bench.base.turns import BenchError
from vema.base.errors import VemaError

ROOT = Path(__file__).parents[2]
PACKAGES = ["hfi_sim", "vema", "opavnic", "ejfat", "lnet", "bench/opavnic_bench"]
MODULES = sorted(itertools.chain.from_iterable((ROOT / name).rglob("*.py") for name in PACKAGES))
HAND_WRITTEN = [path for path in MODULES if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))]

IO_MODULES = {
    "aiohttp", "asyncio", "concurrent", "ctypes", "fcntl", "grpc", "mmap", "multiprocessing", "os", "pathlib",
    "pyroute2", "random", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess",
    "tempfile", "termios", "threading", "time", "tty",
}  # fmt: skip
"""What a sans-IO core does without: sockets, files, processes, a clock and chance of its own."""

SHELLS = {
    # module or package: what it does that a core does not
    "bench/opavnic_bench": "measures: clocks, programs, sockets",
    "ejfat/cli": "commands: files, asyncio",
    "ejfat/files/conformance.py": "files of vectors",
    "ejfat/control/grpc": "gRPC servers",
    "ejfat/control/pb": "made by protoc: gRPC stubs",
    "ejfat/control/store.py": "a database",
    "ejfat/demo": "programs, sockets",
    "ejfat/dissectors.py": "names files",
    "ejfat/live": "sockets, asyncio",
    "ejfat/files/pcap.py": "files",
    "ejfat/files/simulator.py": "names files",
    "hfi_sim/management/mad/stack.py": "asyncio: waits for responses",
    "hfi_sim/netdev": "TAPs, netlink, namespaces",
    "hfi_sim/base/precise_loop.py": "an event loop",
    "hfi_sim/base/private_file.py": "files",
    "hfi_sim/management/reliable/service.py": "takes a source of random numbers",
    "lnet/cli": "commands: threads, files",
    "lnet/dissectors.py": "names files",
    "lnet/host/host.py": "asyncio: waits for reports",
    "lnet/host/lab.py": "control API, asyncio, files",
    "lnet/node/node.py": "takes a source of random numbers",
    "lnet/host/questions.py": "asyncio: waits for reports",
    "lnet/settings/section.py": "files",
    "lnet/host/rig.py": "takes a source of random numbers",
    "opavnic/cli": "commands: files, terminals, asyncio",
    "opavnic/cluster/machines/boundary.py": "asyncio: looks at credits later",
    "opavnic/cluster/machines/gate.py": "asyncio, a thread: offers what leaves",
    "opavnic/cluster/zenoh/links.py": "asyncio, a lock: links over Zenoh, in its threads",
    "opavnic/cluster/machines/node.py": "asyncio: a machine of a cluster; the time of day",
    "opavnic/cluster/machines/coordinator.py": "asyncio: a machine of a cluster",
    "opavnic/cluster/machines/member.py": "asyncio: a machine of a cluster",
    "opavnic/cluster/machines/fellows.py": "asyncio: tells other machines configurations",
    "opavnic/cluster/machines/deputy.py": "asyncio: tells other machines multicast groups",
    "opavnic/cluster/machines/elsewhere.py": "asyncio: asks other machines",
    "opavnic/cluster/machines/captures.py": "asyncio: asks other machines, for as long as a capture runs",
    "opavnic/cluster/machines/program_here.py": "asyncio: programs, terminals",
    "opavnic/cluster/machines/programs_there.py": "asyncio, the environment of programs",
    "opavnic/cluster/machines/part.py": "asyncio: asks other machines",
    "opavnic/cluster/machines/run.py": "asyncio, files",
    "opavnic/cluster/zenoh/credentials.py": "files, the time of day",
    "opavnic/cluster/zenoh/own_addresses.py": "a socket",
    "opavnic/cluster/zenoh/session.py": "the environment, in which Zenoh reads what threads it has",
    "opavnic/cluster/zenoh/transport.py": "a Zenoh session: asyncio, threads",
    "opavnic/web/pages": "pages of a server",
    "opavnic/web/server.py": "a server: sockets, asyncio",
    "opavnic/web/pages/watch.py": "asks a lab: asyncio, threads",
    "opavnic/conformance": "files of vectors, sockets",
    "opavnic/devices/kernel/entry.py": "a socket, descriptors",
    "opavnic/devices/kernel/memory.py": "the memory of processes",
    "opavnic/devices/kernel/mounts.py": "mounts",
    "opavnic/devices/kernel/seccomp.py": "filters of system calls",
    "opavnic/devices/kernel/session.py": "descriptors, asyncio, threads",
    "opavnic/datapath/native_thread.py": "asyncio: wakes the native thread",
    "opavnic/management/em_port.py": "names a database",
    "opavnic/base/files.py": "files",
    "opavnic/lab": "namespaces, processes, sockets, files",
    "opavnic/management/mad_client.py": "a socket",
    "opavnic/management/mad_record.py": "files",
    "opavnic/management/mad_socket.py": "a socket, asyncio",
    "opavnic/observe/dissectors.py": "files, programs",
    "opavnic/observe/trace_file.py": "files",
    "opavnic/testing/pytest_labs.py": "asyncio",
    "opavnic/pytest_plugin.py": "names files",
    "opavnic/testing/pytest_report.py": "names files",
    "opavnic/scenario": "asyncio, sockets",
    "opavnic/base/signals.py": "signals, threads",
    "opavnic/base/socket_peer.py": "a socket",
    "opavnic/world": "asyncio: what is started and ended",
    "vema/em/service/service.py": "asyncio: waits for conditions",
    "vema/em/store/database.py": "a database",
    "vema/em/service/verify.py": "asyncio: asks many agents side by side",
    "vema/em/service/simulator.py": "asyncio: waits for what should come",
}
"""Everything else is core. What is new is core, too, unless its entry here says why not."""
CORE_IN_SHELLS = {
    "hfi_sim/netdev/base.py",
    "hfi_sim/netdev/memory.py",
    "opavnic/lab/ownership/log_limits.py",
    "opavnic/lab/file/name_rules.py",
    "opavnic/lab/hosts/names.py",
    "opavnic/lab/file/uplink_model.py",
    "opavnic/lab/hosts/uplinks/learning.py",
}
MAX_LINES = 600


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _is_core(path: Path) -> bool:
    name = _name(path)
    above = {str(folder) for folder in path.relative_to(ROOT).parents}
    return name in CORE_IN_SHELLS or not SHELLS.keys() & {name, *above}


def _imported(path: Path) -> set[str]:
    """Return the packages that a module imports when it runs; what only type checkers import does nothing."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            imported.add(node.module.split(".")[0])
    return imported


def test_core_is_most_of_the_house() -> None:
    core = [path for path in MODULES if _is_core(path)]
    assert len(core) > 150
    assert ROOT / "vema/em/core/core.py" in core


@pytest.mark.parametrize("path", [path for path in MODULES if _is_core(path)], ids=_name)
def test_core_module_imports_no_io(path: Path) -> None:
    assert sorted(_imported(path) & IO_MODULES) == [], "a core module, unless SHELLS says what it does"


@pytest.mark.parametrize("name", [name for name in SHELLS if (ROOT / name).is_file()])
def test_module_that_does_no_io_is_no_shell(name: str) -> None:
    assert _imported(ROOT / name) & IO_MODULES, f"{name} is core: take it out of SHELLS"


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


ROOTS: dict[str, type[Exception]] = {
    "hfi_sim": HfiSimError,
    "vema": VemaError,
    "opavnic": OpavnicError,
    "ejfat": EjfatError,
    "lnet": LnetError,
    "opavnic_bench": BenchError,
}
"""Each package has one root of exceptions, so that its errors can be told from a bug by one name."""


@functools.cache
def _exceptions(path: Path) -> list[str]:
    """Return the classes of a module that have an exception among their bases; only those modules are imported."""
    return [
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)
    ]


@pytest.mark.parametrize("path", [path for path in HAND_WRITTEN if _exceptions(path)], ids=_name)
def test_exceptions_descend_from_the_root_of_their_package(path: Path) -> None:
    name = _name(path).removeprefix("bench/").removesuffix(".py").replace("/", ".")
    module, root = importlib.import_module(name), ROOTS[name.partition(".")[0]]
    strays = [name for name in _exceptions(path) if not issubclass(getattr(module, name), root)]
    assert strays == [], f"derive them from {root.__name__}"


def test_roots_of_exceptions_descend_from_the_floor_below() -> None:
    """Whoever handles the errors of a floor handles those of what stands on it, without knowing its name."""
    floors = [HfiSimError, VemaError, OpavnicError]
    assert all(issubclass(upper, lower) for lower, upper in itertools.pairwise(floors))
    assert issubclass(EjfatError, OpavnicError)
    assert issubclass(LnetError, OpavnicError)


def test_programs_of_tests_are_killed_on_the_way_out() -> None:
    """`with subprocess.Popen` waits for a program without end; `processes.child` ends it first."""
    tests = ROOT / "tests"
    found = [
        path for path in tests.rglob("*.py") if re.search(r"with (subprocess\.)?Popen\(", path.read_text())
    ]
    assert found == [tests / "processes.py"]


def test_fuzz_targets_are_locked_to_what_their_crates_need() -> None:
    """`make fuzz` builds with --locked: a dependency that a crate gets must not be the end of it, unseen."""
    lock = tomllib.loads((ROOT / "native/fuzz/Cargo.lock").read_text())
    locked = {package["name"]: package.get("dependencies", []) for package in lock["package"]}
    missing = {}
    for crate in (ROOT / "native").glob("*/Cargo.toml"):
        wanted = tomllib.loads(crate.read_text())
        if (name := wanted["package"]["name"]) in locked:
            has = {dependency.partition(" ")[0] for dependency in locked[name]}
            missing[name] = wanted.get("dependencies", {}).keys() - has
    assert len(missing) > 3
    assert {name: gone for name, gone in missing.items() if gone} == {}
