"""Building user-mode Linux with opa_vnic from a kernel's source, and our module for it.

The source is a directory of the user's, or a tar archive such as Debian's package linux-source installs. The directory
is only read. Everything is built in a directory of its own beside the cache, which is removed at the end.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from opavnic.kernel.archive import archive
from opavnic.kernel.cache import FIRST_FILES, KERNEL, SEEDED, SOURCE, KernelError, cache_directory, note

Progress = Callable[[str], None]
"""Told what is being done now, in one line."""

PACKAGED: Final = Path("/usr/src")
"""Where packages put kernel sources."""
TOOLS: Final = {
    "gcc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "m4": "m4",
    "strip": "binutils",
}
"""Programs that a build needs, and the packages of Debian that have them."""
EACH: Final = 100
"""Compiled files between two lines of progress."""
ABOUT: Final = 1000
"""Files that are compiled, more or less."""
MODULE: Final = "opa_sim_hfi"
MODULE_FILES: Final = (
    "Kbuild",
    "opa_sim_hfi.h",
    "agent_file.c",
    "device.c",
    "mad.c",
    "vnic.c",
    "wire.c",
)
FIRST_PROGRAM: Final = ("init.c", "agent.c")
_OPA_VNIC: Final = "CONFIG_INFINIBAND_OPA_VNIC=y"
_VERSION: Final = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", re.MULTILINE)
_COMPILED: Final = re.compile(r"\s+(CC|LD|AR|HOSTCC)\b")
_WRONG: Final = re.compile(r"error:|\*\*\*|undefined reference|[Nn]ot found")


def build(source: Path | None, progress: Progress) -> Path:
    """Build a kernel into the cache, in place of one of the same version; return its directory.

    Args:    source: a directory or tar archive; None: that of an installed package linux-source.
    Raises:  KernelError: no source, a program is missing, another build is under way, or the build failed.
    """
    source = _packaged() if source is None else source
    if not source.exists():
        raise KernelError(f"{source}: no such directory or file")
    _check_tools(packed=source.is_file())
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with _only_one(cache), _empty(cache / "build") as work:
        tree = _tree(source, work, progress)
        version = _version(tree)
        log = cache / f"{version}.log"
        with log.open("w") as written:
            _build(tree, work, version, progress, written)
        result = work / "result"
        result.mkdir()
        _collect(work, result)
        note(result, version, str(source.resolve()))
        target = cache / version
        shutil.rmtree(target, ignore_errors=True)
        result.rename(target)
    return target


def _packaged() -> Path:
    found = [
        *PACKAGED.glob("linux-source-*.tar.*"),
        *(path.parent for path in PACKAGED.glob("linux*/Kconfig")),
    ]
    if not found:
        raise KernelError(
            "no kernel source: apt install linux-source, or name a kernel tree or its archive with --source"
        )
    return max(found, key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)])


def _check_tools(*, packed: bool) -> None:
    needed = TOOLS | ({"tar": "tar", "xz": "xz-utils"} if packed else {})
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        packages = " ".join(needed[program] for program in missing)
        raise KernelError(f"a kernel cannot be built without {', '.join(missing)}: apt install {packages}")


@contextmanager
def _only_one(cache: Path) -> Iterator[None]:
    """Keep other builds out."""
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise KernelError(f"another build is under way in {cache}") from None
        yield


@contextmanager
def _empty(directory: Path) -> Iterator[Path]:
    """Have an empty directory, also where a build was killed; always the same, so that ccache knows its files again."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _tree(source: Path, work: Path, progress: Progress) -> Path:
    """Return the directory of the source; an archive is unpacked into `work`."""
    if source.is_dir():
        tree = source
    else:
        progress(f"unpacking {source}")
        unpacked = work / "source"
        unpacked.mkdir()
        done = subprocess.run(
            ["tar", "-xf", str(source), "-C", str(unpacked)], stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise KernelError(f"{source}: not unpacked: {_last(done.stderr)}")
        inside = [path for path in unpacked.iterdir() if path.is_dir()]
        tree = inside[0] if len(inside) == 1 else unpacked
    if not (tree / "drivers/infiniband/ulp/opa_vnic/Kconfig").is_file():
        raise KernelError(f"{source}: no kernel source with drivers/infiniband/ulp/opa_vnic")
    return tree


def _version(tree: Path) -> str:
    numbers = dict(_VERSION.findall((tree / "Makefile").read_text(errors="replace")))
    if len(numbers) != 3:
        raise KernelError(f"{tree / 'Makefile'}: no version of a kernel in it")
    return f"{numbers['VERSION']}.{numbers['PATCHLEVEL']}.{numbers['SUBLEVEL']}"


def _build(tree: Path, work: Path, version: str, progress: Progress, log: IO[str]) -> None:
    objects, module = work / "objects", work / "module"
    objects.mkdir()
    module.mkdir()
    for name in MODULE_FILES:
        shutil.copy(SOURCE / name, module)
    make = ["make", "-C", str(tree), "ARCH=um", f"O={objects}"]
    progress(f"configuring Linux {version}")
    _run([*make, f"KCONFIG_ALLCONFIG={SOURCE / 'config'}", "allnoconfig"], log)
    if _OPA_VNIC not in (objects / ".config").read_text():
        raise KernelError(
            f"{tree}: Linux {version} cannot have opa_vnic in user mode: {_OPA_VNIC} does not hold"
        )
    _run(["nice", *make, f"-j{os.cpu_count() or 1}"], log, _counted(f"Linux {version}", progress))
    progress(f"building {MODULE}")
    _run([*make, f"M={module}", "modules"], log)
    first = [*(str(SOURCE / name) for name in FIRST_PROGRAM), "-o", str(work / "init")]
    _run(["gcc", "-static", "-O2", "-Wall", *first], log)
    seeded = ["-o", str(work / SEEDED), str(SOURCE / "seeded.c")]
    _run(["gcc", "-shared", "-fPIC", "-O2", "-Wall", *seeded], log)


def _counted(what: str, progress: Progress) -> Callable[[str], None]:
    count = 0

    def take(line: str) -> None:
        nonlocal count
        if _COMPILED.match(line):
            count += 1
            if count % EACH == 0:
                progress(f"building {what}: {count} of about {ABOUT} files")

    return take


def _run(command: list[str], log: IO[str], take: Callable[[str], None] = lambda _line: None) -> None:
    """Run a program; its output goes to the log and, line by line, to `take`.

    Raises:  KernelError: it failed, with the first line that says why.
    """
    wrong = ""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")},
    ) as process:
        assert process.stdout is not None  # noqa: S101 - asked for above
        for line in process.stdout:
            log.write(line)
            take(line)
            if not wrong and _WRONG.search(line):
                wrong = line.strip()
    if process.returncode:
        log.flush()
        raise KernelError(f"{wrong or f'{command[0]} ended with {process.returncode}'}; see {log.name}")


def _collect(work: Path, result: Path) -> None:
    program = result / KERNEL
    shutil.copy(work / "objects" / KERNEL, program)
    subprocess.run(["strip", str(program)], check=False, stderr=subprocess.DEVNULL)
    shutil.copy(work / SEEDED, result)
    name = f"{MODULE}.ko"
    files = {"init": (work / "init").read_bytes(), name: (work / "module" / name).read_bytes()}
    (result / FIRST_FILES).write_bytes(archive(files, ("proc", "sys", "dev")))


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason given"
