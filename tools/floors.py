"""The floors of the packages: no cycle between folders, no crowded folder, I/O only where a name says so, no class name
for two things.

`python -m tools.floors` prints a table of the packages and, below it, what breaks a rule; `python -m tools.floors DIR`
does the same for another checkout. The order of the floors is in the contracts of pyproject.toml.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("hfi_sim", "vema", "opavnic", "ejfat", "lnet", "bench/opavnic_bench")
MAX_MODULES: Final = 20
"""Modules in one folder."""
MAX_FOR_TYPES: Final = 5
"""Entries of FOR_TYPES."""

FOR_TYPES: Final = {
    (
        "hfi_sim.nodes",
        "hfi_sim.management",
    ): "an HFI port and a switch hold the MAD stack and agents that the fabric gives them",
    ("opavnic.world", "opavnic.lab"): "a part is told the lab file that it stands in",
    ("lnet.objects", "lnet.o2iblnd"): "a message names the connection on which it waits",
}
"""Imports for type checkers alone that close a cycle: (importing folder, imported folder) -> why it stays."""

IO_MODULES: Final = {
    "aiohttp", "asyncio", "concurrent", "ctypes", "fcntl", "grpc", "mmap", "multiprocessing", "os", "pathlib",
    "random", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess",
    "tempfile", "termios", "threading", "time", "tty",
}  # fmt: skip
"""What a module that only decides does without: sockets, files, processes, threads, a clock and chance of its own."""

IO_NAMES: Final = {
    # programs and what they run
    "bench", "cli", "demo", "pytest", "live", "run", "scenario", "service", "world",
    # machines, hosts, their kernel
    "machines", "host", "hosts", "kernel", "netdev", "signals", "loop", "thread",
    # connections
    "client", "server", "socket", "sockets", "grpc", "zenoh", "pages",
    # files
    "file", "files", "store", "ownership", "dissectors",
}  # fmt: skip
"""Words of a folder's or module's name that say: here are sockets, files, tasks or threads."""


@dataclass(slots=True)
class Module:
    """One module, and what it imports of the packages and of IO_MODULES."""

    name: str
    folder: str
    """The dotted name of the folder that it stands in; a package's `__init__` stands in its own."""
    imports: set[str] = field(default_factory=set)
    """Modules that it imports when it runs, at its top or inside a function."""
    for_types: set[str] = field(default_factory=set)
    """Modules that it imports under TYPE_CHECKING only."""
    io: set[str] = field(default_factory=set)
    """Which of IO_MODULES it imports when it runs."""
    classes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Edge:
    """One folder that imports another one, and an import that makes it so."""

    source: str
    target: str
    example: str


def read(root: Path) -> dict[str, Module]:
    """Return all modules of the packages below `root` by their dotted names."""
    paths: dict[str, Path] = {}
    for package in PACKAGES:
        base = root / package
        for path in sorted(base.rglob("*.py")):
            paths[".".join(path.relative_to(base.parent).with_suffix("").parts).removesuffix(".__init__")] = (
                path
            )
    modules = {}
    for name, path in paths.items():
        folder = name if path.name == "__init__.py" else name.rpartition(".")[0]
        modules[name] = module = Module(name, folder)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module.classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for target, at_run_time in _imports(tree, for_types=False):
            if not at_run_time:
                module.for_types |= _known(target, paths)
                continue
            module.imports |= _known(target, paths)
            if (top := target.partition(".")[0]) in IO_MODULES:
                module.io.add(top)
        module.for_types -= module.imports
    return modules


def names_used_twice(modules: Mapping[str, Module]) -> list[str]:
    """Return a problem for each class name that stands for several things, with where they are."""
    places = defaultdict(list)
    for module in modules.values():
        for name in module.classes:
            places[name].append(module.name)
    return [
        f"class {name} stands for {len(found)} things: {', '.join(found)}"
        for name, found in sorted(places.items())
        if len(found) > 1
    ]


def _imports(tree: ast.AST, *, for_types: bool) -> Iterator[tuple[str, bool]]:
    """Yield each imported name, `package.module.name` of a `from`, and whether it is imported when the module runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, not for_types
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}", not for_types
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _imports(node, for_types=True)
        else:
            yield from _imports(node, for_types=for_types)


def _known(target: str, paths: Mapping[str, Path]) -> set[str]:
    """Return the module of the packages that `target` is, or is in; nothing for other packages and compiled modules."""
    if target in paths:
        return {target}
    parent, _, name = target.rpartition(".")
    if parent in paths and not paths[parent].with_name(f"{name}.pyi").exists():
        return {parent}
    return set()


def edges(modules: Mapping[str, Module], container: str, *, for_types: bool) -> dict[tuple[str, str], Edge]:
    """Return which children of a folder import each other, whatever is inside them; its own modules are one child.

    Args:    modules: those of one package; imports of others do not count.
    """

    def child(folder: str) -> str | None:
        if folder == container:
            return folder
        if not folder.startswith(f"{container}."):
            return None
        return f"{container}.{folder.removeprefix(f'{container}.').partition('.')[0]}"

    found: dict[tuple[str, str], Edge] = {}
    for module in modules.values():
        if (source := child(module.folder)) is None:
            continue
        for name in sorted(module.for_types if for_types else module.imports):
            target = child(modules[name].folder) if name in modules else None
            if target is not None and target != source:
                found.setdefault((source, target), Edge(source, target, f"{module.name} imports {name}"))
    return found


def cycles(graph: set[tuple[str, str]]) -> list[set[str]]:
    """Return the sets of nodes that reach each other, largest first; none if the graph has no cycle."""
    following = defaultdict(set)
    for source, target in graph:
        following[source].add(target)

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        left = [start]
        while left:
            new = following[left.pop()] - found
            found |= new
            left += new
        return found

    reach = {node: reached(node) for node in {node for edge in graph for node in edge}}
    groups = {
        frozenset({other for other in reach[node] if node in reach[other]})
        for node in reach
        if node in reach[node]
    }
    return sorted((set(group) for group in groups), key=lambda group: (-len(group), sorted(group)))


@dataclass(slots=True)
class Package:
    """One row of the table, and what breaks a rule in the package."""

    name: str
    modules: int = 0
    folders: int = 0
    largest: tuple[int, str] = (0, "")
    """Modules of the largest folder, and its name."""
    cycles: int = 0
    """Groups of folders that import each other when they run."""
    in_cycles: int = 0
    """Folders in those groups."""
    for_types: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of folders that are part of a cycle by imports for type checkers alone."""
    contract: int = 0
    """Lines of its contracts in pyproject.toml."""
    problems: list[str] = field(default_factory=list)


def look(modules: Mapping[str, Module], name: str) -> Package:
    """Return what there is to say of one of PACKAGES."""
    name = name.rpartition("/")[2]
    own = {key: module for key, module in modules.items() if f"{key}.".startswith(f"{name}.")}
    package = Package(name)
    sizes: dict[str, int] = defaultdict(int)
    for module in own.values():
        sizes[module.folder] += module.name != module.folder
        if module.io and not _says_io(module.name):
            package.problems.append(
                f"{module.name} imports {', '.join(sorted(module.io))}: a name with one of the words of IO_NAMES "
                "(tools/floors.py) says so, or the part that decides stands in a module of its own"
            )
    package.modules, package.folders = sum(sizes.values()), len(sizes)
    package.largest = max((size, folder) for folder, size in sizes.items())
    for folder, size in sorted(sizes.items()):
        if size > MAX_MODULES:
            package.problems.append(f"{folder} holds {size} modules, more than {MAX_MODULES}: divide it")
    for container in sorted(sizes):
        running = edges(own, container, for_types=False)
        for group in cycles(set(running)):
            package.cycles += 1
            package.in_cycles += len(group)
            inside = [edge for edge in running.values() if {edge.source, edge.target} <= group]
            package.problems += [
                f"cycle of folders: {' '.join(sorted(group))}",
                *(f"  {e.example}" for e in inside),
            ]
        typing = {
            pair: edge for pair, edge in edges(own, container, for_types=True).items() if pair not in running
        }
        for group in cycles(set(running) | set(typing)):
            for pair, edge in typing.items():
                if set(pair) <= group:
                    package.for_types.append(pair)
                    if pair not in FOR_TYPES:
                        package.problems.append(
                            f"cycle of folders by an import for type checkers: {edge.example}; "
                            "remove it, or say in FOR_TYPES (tools/floors.py) why it stays"
                        )
    return package


def _says_io(name: str) -> bool:
    return bool(IO_NAMES & set(re.split(r"[._]", name))) or name.endswith(("_pb2", "_pb2_grpc"))


def contract_lines(pyproject: str) -> dict[str, int]:
    """Return how many lines the contracts of each package have in the text of pyproject.toml."""
    found: dict[str, int] = defaultdict(int)
    for block in pyproject.split("[[tool.importlinter.contracts]]")[1:]:
        block = re.split(r"^\[", block, maxsplit=1, flags=re.MULTILINE)[0]
        if match := re.search(r'^(?:containers|source_modules) = \["(\w+)', block, flags=re.MULTILINE):
            found[match[1]] += 1 + sum(bool(line.strip()) for line in block.splitlines())
    return found


def main(root: Path) -> int:
    """Print the table and the problems; return 1 if there are any, 2 without a checkout, else 0."""
    project = root / "pyproject.toml"
    if not project.is_file():
        print(f"{root} is no checkout: it has no pyproject.toml", file=sys.stderr)
        return 2
    modules = read(root)
    lines = contract_lines(project.read_text(encoding="utf-8"))
    packages = [look(modules, name) for name in PACKAGES]
    row = "{:14} {:>7} {:>7}  {:34} {:>6} {:>9} {:>8}".format
    print(row("package", "modules", "folders", "largest folder", "cycles", "for types", "contract"))
    for package in packages:
        package.contract = lines.get(package.name, 0)
        size, folder = package.largest
        print(
            row(
                package.name,
                package.modules,
                package.folders,
                f"{size} {folder}",
                f"{package.cycles} ({package.in_cycles})" if package.cycles else 0,
                len(package.for_types),
                package.contract,
            )
        )
    problems = [problem for package in packages for problem in package.problems]
    problems += names_used_twice(modules)
    seen = {pair for package in packages for pair in package.for_types}
    problems += [
        f"FOR_TYPES: {source} -> {target} closes no cycle" for source, target in FOR_TYPES.keys() - seen
    ]
    if len(FOR_TYPES) > MAX_FOR_TYPES:
        problems.append(f"FOR_TYPES has {len(FOR_TYPES)} entries, more than {MAX_FOR_TYPES}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else ROOT))
