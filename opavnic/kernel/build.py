"""Building user-mode Linux with Omni-Path's drivers from a kernel's source, and our module for it.

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
from opavnic.kernel.cache import (
    KERNEL,
    MODULES,
    SEEDED,
    SOURCE,
    SYMBOLS,
    KernelError,
    cache_directory,
    check_name,
    first_files,
    note,
)
from opavnic.kernel.drivers import DRIVERS, HFI1, LOADED, OPA_VNIC, LinuxDriver, ours_for
from opavnic.kernel.firmware import NAME as FIRMWARE
from opavnic.kernel.firmware import firmware

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
ABOUT: Final = 1100
"""Files that are compiled, more or less."""
FIRST_PROGRAM: Final = ("init.c", "agent.c")
FOR_SYMBOLS: Final = "CONFIG_DEBUG_KERNEL=y\nCONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y\n"
_SETTING: Final = re.compile(r"(?:(CONFIG_\w+)=(\S.*)|# (CONFIG_\w+) is not set)")
_VERSION: Final = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", re.MULTILINE)
_COMPILED: Final = re.compile(r"\s+(CC|LD|AR|HOSTCC)\b")
_WRONG: Final = re.compile(r"error:|\*\*\*|undefined reference|[Nn]ot found")


def build(
    progress: Progress,
    *,
    source: Path | None = None,
    name: str = "",
    config: Path | None = None,
    symbols: bool = False,
) -> Path:
    """Build a kernel into the cache, in place of one of the same name; return its directory.

    Args:    source: a directory or tar archive; None: that of an installed package linux-source. name: what the kernel
             is called in the cache; empty: after its version. config: lines CONFIG_X=y and "# CONFIG_X is not set" that
             hold beside ours, and before them. symbols: whether files for a debugger are kept, too.
    Raises:  KernelError: no source, a program is missing, another build is under way, or the build failed.
    """
    source = _packaged() if source is None else source
    if not source.exists():
        raise KernelError(f"{source}: no such directory or file")
    if name:
        check_name(name)
    settings = _settings(config)
    _check_tools(packed=source.is_file())
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with _only_one(cache), _empty(cache / "build") as work:
        tree = _tree(source, work, progress)
        version = _version(tree)
        name = name or version
        drivers = _drivers(tree, version, progress)
        log = cache / f"{name}.log"
        with log.open("w", buffering=1) as written:  # by lines: people follow it
            _Build(tree, work, version, drivers, progress, written).make(settings, symbols=symbols)
        result = work / "result"
        result.mkdir()
        _collect(work, result, drivers, symbols=symbols)
        note(result, name, version, str(source.resolve()), [driver.name for driver in drivers])
        target = cache / name
        shutil.rmtree(target, ignore_errors=True)
        result.rename(target)
    return target


def _settings(path: Path | None) -> dict[str, str]:
    """Return what a file sets, by the lines to write; "" is the value of what is not set.

    Raises:  KernelError: it cannot be read, or a line of it says something else.
    """
    found: dict[str, str] = {}
    try:
        lines = [] if path is None else path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KernelError(f"{path}: not read: {getattr(error, 'strerror', None) or 'no text'}") from error
    for number, line in enumerate(lines, start=1):
        setting = _SETTING.fullmatch(line.strip())
        if setting:
            found[setting[1] or setting[3]] = "" if setting[2] == "n" else setting[2] or ""
        elif line.strip() and not line.lstrip().startswith("#"):
            raise KernelError(
                f"{path}:{number}: {line.strip()!r} should be CONFIG_X=y or # CONFIG_X is not set"
            )
    return found


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
    if not any((tree / driver.directory).is_dir() for driver in (OPA_VNIC, HFI1)):
        raise KernelError(f"{source}: no kernel source with {OPA_VNIC.directory} or {HFI1.directory}")
    return tree


def _drivers(tree: Path, version: str, progress: Progress) -> list[LinuxDriver]:
    """Return those that a tree has; say which it has not. Without hfi1, nothing uses what stands on it."""
    there = [driver for driver in DRIVERS if (tree / driver.directory).is_dir()]
    if HFI1 not in there:
        there = [OPA_VNIC]
    for driver in (OPA_VNIC, HFI1):
        if driver not in there:
            until = f", which is in kernels up to Linux {driver.last}" if driver.last else ""
            progress(f"Linux {version} has no {driver.name}{until}: built without it")
    return there


def _version(tree: Path) -> str:
    numbers = dict(_VERSION.findall((tree / "Makefile").read_text(errors="replace")))
    if len(numbers) != 3:
        raise KernelError(f"{tree / 'Makefile'}: no version of a kernel in it")
    return f"{numbers['VERSION']}.{numbers['PATCHLEVEL']}.{numbers['SUBLEVEL']}"


class _Build:
    """One build, in a directory of its own."""

    def __init__(
        self,
        tree: Path,
        work: Path,
        version: str,
        drivers: list[LinuxDriver],
        progress: Progress,
        log: IO[str],
    ) -> None:
        self._tree = tree
        self._work = work
        self._version = version
        self._drivers = drivers
        self._progress = progress
        self._log = log
        self._objects = work / "objects"
        self._make = ["make", "-C", str(tree), "ARCH=um", f"O={self._objects}"]

    def make(self, settings: dict[str, str], *, symbols: bool) -> None:
        """Make all. Args:  settings: of the user, in place of ours."""
        self._objects.mkdir()
        self._configure(settings, symbols)
        jobs = f"-j{os.cpu_count() or 1}"
        self._run(["nice", *self._make, jobs], _counted(f"Linux {self._version}", ABOUT, self._progress))
        copied = [driver for driver in self._drivers if driver.is_copied]
        self._progress(f"building {', '.join([*_ours(self._drivers), *(driver.name for driver in copied)])}")
        module = self._module(copied)
        options = [f"{driver.option}=m" for driver in copied]
        self._run(["nice", *self._make, f"M={module}", *options, jobs, "modules"])
        first = [*(str(SOURCE / name) for name in FIRST_PROGRAM), "-o", str(self._work / "init")]
        self._run(["gcc", "-static", "-O2", "-Wall", *first])
        seeded = ["-o", str(self._work / SEEDED), str(SOURCE / "seeded.c")]
        self._run(["gcc", "-shared", "-fPIC", "-O2", "-Wall", *seeded])

    def _configure(self, settings: dict[str, str], symbols: bool) -> None:
        """Configure it, and see whether all that was asked for holds."""
        self._progress(f"configuring Linux {self._version}")
        ours = (SOURCE / "config").read_text() + (FOR_SYMBOLS if symbols else "")
        if HFI1 in self._drivers:
            ours += self._firmware()
        lines = [line for line in ours.splitlines() if line.partition("=")[0] not in settings]
        lines += [f"{name}={value}" if value else f"# {name} is not set" for name, value in settings.items()]
        wanted = self._work / "config"
        wanted.write_text("\n".join(lines) + "\n")
        self._run([*self._make, f"KCONFIG_ALLCONFIG={wanted}", "allnoconfig"])
        holds = dict(_set_in((self._objects / ".config").read_text()))
        for driver in self._drivers:
            if not driver.is_copied and driver.option not in holds:
                raise KernelError(
                    f"{self._tree}: Linux {self._version} cannot have {driver.name} in user mode: "
                    f"{driver.option} does not hold"
                )
        for name, value in settings.items():
            if holds.get(name, "") != value:
                is_now = f"it is {holds[name]}" if name in holds else "it is not set"
                raise KernelError(
                    f"{name}={value or 'n'} does not hold in Linux {self._version} for user mode: {is_now}; "
                    "what it depends on is missing, or it has another name"
                )

    def _firmware(self) -> str:
        """Write the firmware that becomes a part of the kernel; return what configures that."""
        directory = self._work / "firmware"
        directory.mkdir()
        (directory / FIRMWARE).write_bytes(firmware())
        return f'CONFIG_FW_LOADER=y\nCONFIG_EXTRA_FIRMWARE="{FIRMWARE}"\nCONFIG_EXTRA_FIRMWARE_DIR="{directory}"\n'

    def _module(self, copied: list[LinuxDriver]) -> Path:
        """Make the directory of what is built beside the tree: ours, and unchanged copies of drivers."""
        module = self._work / "module"
        module.mkdir()
        shutil.copy(SOURCE / "Kbuild", module)
        for name in _ours(self._drivers):
            shutil.copytree(SOURCE / name, module / name)
        if copied:
            shutil.copytree(SOURCE / "drivers", module / "drivers")
        for driver in copied:
            shutil.copytree(self._tree / driver.directory, module / "drivers" / driver.name)
        return module

    def _run(self, command: list[str], take: Callable[[str], None] = lambda _line: None) -> None:
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
                self._log.write(line)
                take(line)
                if not wrong and _WRONG.search(line):
                    wrong = line.strip()
        if process.returncode:
            self._log.flush()
            raise KernelError(
                f"{wrong or f'{command[0]} ended with {process.returncode}'}; see {self._log.name}"
            )


def _set_in(config: str) -> Iterator[tuple[str, str]]:
    for line in config.splitlines():
        setting = _SETTING.fullmatch(line)
        if setting and setting[1]:
            yield setting[1], setting[2]


def _counted(what: str, about: int, progress: Progress) -> Callable[[str], None]:
    count = 0

    def take(line: str) -> None:
        nonlocal count
        if _COMPILED.match(line):
            count += 1
            if count % EACH == 0:
                progress(f"building {what}: {count} of about {about} files")

    return take


def _collect(work: Path, result: Path, drivers: list[LinuxDriver], *, symbols: bool) -> None:
    """Copy what is kept, without symbols; with `symbols`, also as it was built, for a debugger."""
    objects, module = work / "objects", work / "module"
    built = {KERNEL: objects / KERNEL}
    (result / MODULES).mkdir()
    for driver in drivers:
        if driver.is_copied:
            built[f"{MODULES}/{driver.name}.ko"] = module / "drivers" / driver.name / f"{driver.name}.ko"
        elif driver.is_module:
            built[f"{MODULES}/{driver.name}.ko"] = objects / driver.directory / f"{driver.name}.ko"
    built |= {f"{MODULES}/{name}.ko": module / name / f"{name}.ko" for name in _ours(drivers)}
    if symbols:
        (result / SYMBOLS).mkdir()
    for name, path in built.items():
        shutil.copy(path, result / name)
        how = "--strip-all" if name == KERNEL else "--strip-debug"
        subprocess.run(["strip", how, str(result / name)], check=False, stderr=subprocess.DEVNULL)
        if symbols:
            shutil.copy(path, result / SYMBOLS / ("vmlinux" if name == KERNEL else path.name))
    shutil.copy(work / SEEDED, result)
    for driver in LOADED:
        if driver in drivers:
            files = _first_files(work, result / MODULES, driver)
            first_files(result, driver).write_bytes(archive(files, ("proc", "sys", "dev")))


def _first_files(work: Path, modules: Path, driver: LinuxDriver) -> dict[str, bytes]:
    lines = LOADED[driver]
    files = {
        f"{name}.ko": (modules / f"{name}.ko").read_bytes() for name in (line.split()[0] for line in lines)
    }
    return {
        "init": (work / "init").read_bytes(),
        "modules": "".join(f"{line}\n" for line in lines).encode(),
    } | files


def _ours(drivers: list[LinuxDriver]) -> list[str]:
    """Return the names of our modules that are for any of these drivers."""
    return sorted({name for driver in LOADED if driver in drivers for name in ours_for(driver)})


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason given"
