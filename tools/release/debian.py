"""Debian packages of a wheel and of all that it needs, one for each release of Debian: no compiler and no pip there.

The package is one virtual environment on Debian's own Python, in /usr/lib/opavnic. Its start-up script looks for the
interpreter beside itself, so the directory runs from any other place too.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.release.build import Built, only, run, source_date
from tools.release.sbom import bill

NAME: Final = "opavnic"
HOME: Final = "usr/lib/opavnic"
EXTRAS: Final = "web,cluster,ejfat"
"""Extras that the package holds; tests are written in a virtual environment of their author's."""

_MANYLINUX: Final = (17, 36)
"""Wheels are taken for glibc 2.17 up to this, which is that of the oldest release."""

_START: Final = """#!/bin/sh
\'\'\'exec' "$(dirname "$(readlink -f "$0")")/python3" "$0" "$@"
' \'\'\'
from opavnic.cli.start import start

start()
"""
_COMPILE: Final = f"""#!/bin/sh
set -e
if [ "$1" = configure ]; then /{HOME}/bin/python3 -m compileall -q /{HOME}/lib || true; fi
"""
_UNCOMPILE: Final = f"""#!/bin/sh
set -e
find /{HOME} -name __pycache__ -type d -prune -exec rm -rf {{}} +
"""
_CONTROL: Final = """Package: {name}
Version: {version}
Architecture: amd64
Maintainer: the opavnic authors
Installed-Size: {size}
Depends: python3 (>= {python}), python3 (<< {next}), libc6 (>= 2.36), iproute2, iputils-ping
Recommends: iperf3, tcpdump
Section: net
Priority: optional
Description: Intel Omni-Path VNIC on an ordinary Linux host
 TAP netdevs carry the Ethernet of real programs over a simulated Omni-Path
 fabric, packet by packet in OPA 16B packets, configured by an Ethernet Manager.
 No Omni-Path hardware and no kernel module is needed.
"""
_COPYRIGHT: Final = (
    "\n{name} is under the license above. {home} holds other Python packages,\n"
    "each with its license in its directory NAME.dist-info; the list is {bill}.\n"
)
_TRIED: Final = """set -e
touch /etc/hosts  # the smallest Debian has none, and names of hosts are put over it
opavnic --version
opavnic demo
cd /tmp
opavnic init two-hosts lab.yaml
opavnic up lab.yaml -d
opavnic exec h1 -- ping -c1 h2
opavnic check
opavnic down
test -e /usr/share/man/man1/opavnic-up.1.gz
dpkg --remove opavnic
test ! -e /usr/lib/opavnic
"""


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Debian: its number, its suite on a mirror, and the version of its Python."""

    number: str
    suite: str
    python: str

    @property
    def after(self) -> str:
        """The first Python that the package does not fit."""
        major, minor = self.python.split(".")
        return f"{major}.{int(minor) + 1}"


RELEASES: Final = (Release("12", "bookworm", "3.11"), Release("13", "trixie", "3.13"))


def debian_packages(project: Path, built: Built, into: Path) -> list[Path]:
    """Build a package for each release and return their paths.

    Args:    into: a directory that is there.
    Raises:  DistError: a program failed, or a package that is needed has no wheel for that release's Python.
    """
    pure = _pure_wheel("crcmod", into)
    return [_package(project, built, release, pure, into) for release in RELEASES]


def try_package(package: Path, release: Release) -> Iterator[str]:
    """Install the package in a fresh Debian without a network, run demo and lab there, remove it; yield what was said.

    Raises:  DistError: a step failed.
    """
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        yield f"Debian {release.number}: not tried, which takes root and mmdebstrap"
        return
    script = _add(package.with_name("tried.sh"), _TRIED)
    mirror = run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Codename: bookworm"]
    )
    said = run(
        [
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            "--include=python3,iproute2,iputils-ping",
            f"--customize-hook=copy-in {package} {script} /tmp",
            '--customize-hook=mkdir -p "$1/dev/net" && mknod -m 666 "$1/dev/net/tun" c 10 200',
            f'--customize-hook=chroot "$1" dpkg --install /tmp/{package.name}',
            # as a root that can be remounted, with a /proc that can be written to; the mounts end with the namespace
            "--customize-hook=unshare --net --mount --pid --fork sh -c '"
            'mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && chroot "$1" sh /tmp/tried.sh\' tried "$1" >&2',
            release.suite,
            "/dev/null",
            mirror.split()[0],
        ]
    )
    yield f"Debian {release.number}, without a network:"
    yield from (f"    {line}" for line in said.splitlines() if line.strip())


def _package(project: Path, built: Built, release: Release, pure: Path, into: Path) -> Path:
    upstream = built.wheel.name.split("-")[1]
    version = f"{upstream}+deb{release.number}"
    root = into / f"{NAME}-{version}"
    packages = _environment(root / HOME, built.wheel, release, pure)
    _add(root / "usr/bin" / NAME, None).symlink_to(f"../lib/{NAME}/bin/{NAME}")
    program = Path(sys.executable).parent / NAME
    run([program, "man", root / "usr/share/man/man1"])
    for page in (root / "usr/share/man/man1").iterdir():
        _pack(page)
    for shell, file in (
        ("bash", f"bash-completion/completions/{NAME}"),
        ("zsh", f"zsh/vendor-completions/_{NAME}"),
        ("fish", f"fish/vendor_completions.d/{NAME}.fish"),
    ):
        _add(root / "usr/share" / file, run([program, "completion", shell]))
    for unit in (project / "deploy").glob("*.service"):
        _add(
            root / "usr/lib/systemd/system" / unit.name,
            unit.read_text().replace("/usr/local/bin/", "/usr/bin/"),
        )
    documents = root / "usr/share/doc" / NAME
    materials = f"{NAME}.cdx.json"
    _pack(_add(documents / materials, bill(project, upstream, packages)))
    told = _COPYRIGHT.format(name=NAME, home=f"/{HOME}", bill=f"{materials}.gz")
    _add(documents / "copyright", (project / "LICENSE").read_text() + told)
    _pack(_add(documents / "changelog", (project / "CHANGELOG.md").read_text()))
    shutil.copytree(
        project / "examples", documents / "examples", ignore=shutil.ignore_patterns("__pycache__", ".*")
    )
    return archive(root, release, version, int(source_date(project)), into)


def _environment(home: Path, wheel: Path, release: Release, pure: Path) -> Path:
    """Make the virtual environment, with wheels for a Python that need not be here; return where packages are."""
    packages = home / f"lib/python{release.python}/site-packages"
    oldest, newest = _MANYLINUX
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(newest, oldest - 1, -1)]
    run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", f"--target={packages}"),
            *(f"--python-version={release.python}", "--implementation=cp", "--only-binary=:all:"),
            *(*platforms, "--platform=manylinux2014_x86_64", f"--find-links={pure.parent}"),
            f"{wheel}[{EXTRAS}]",
        ]
    )
    shutil.rmtree(packages / "bin", ignore_errors=True)  # they would start the interpreter that pip ran on
    for origin in packages.glob("*.dist-info/direct_url.json"):
        origin.unlink()  # a path of the machine that built
    _add(
        home / "pyvenv.cfg",
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {release.python}\n",
    )
    _add(home / "bin/python3", None).symlink_to(f"/usr/bin/python{release.python}")
    _add(home / "bin" / NAME, _START).chmod(0o755)
    return packages


def _pure_wheel(name: str, into: Path) -> Path:
    """Build the wheel of a package that hands out sources alone, leave out what was compiled, and return its path.

    Only for packages that do without their compiled part: then one wheel fits every Python.
    """
    made = into / "pure"
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", f"--wheel-dir={made / 'raw'}", name])
    raw = only((made / "raw").glob("*.whl"), name)
    pure = made / ("-".join(raw.name.split("-")[:2]) + "-py3-none-any.whl")
    with zipfile.ZipFile(raw) as source, zipfile.ZipFile(pure, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith(".so"):
                continue
            if entry.filename.endswith(".dist-info/WHEEL"):
                content = re.sub(rb"Tag: .*", b"Tag: py3-none-any", content)
            if entry.filename.endswith(".dist-info/RECORD"):
                content = b"".join(line for line in content.splitlines(keepends=True) if b".so," not in line)
            target.writestr(entry, content)
    return pure


def archive(root: Path, release: Release, version: str, date: int, into: Path) -> Path:
    """Add to a tree what dpkg reads, and return the package; the tree is gone. The same tree makes the same bytes.

    Args:  date: the time of all files, in seconds since 1970.
    """
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    size = sum(path.stat().st_size for path in files) // 1024
    sums = "".join(
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(root)}\n"
        for path in files
    )
    control = root / "DEBIAN"
    _add(control / "md5sums", sums)
    _add(
        control / "control",
        _CONTROL.format(name=NAME, version=version, size=size, python=release.python, next=release.after),
    )
    _add(control / "postinst", _COMPILE).chmod(0o755)
    _add(control / "prerm", _UNCOMPILE).chmod(0o755)
    for path in (root, *root.rglob("*")):
        os.utime(path, (date, date), follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    package = into / f"{NAME}_{version}_amd64.deb"
    run(
        ["dpkg-deb", "--root-owner-group", "-Zzstd", "--build", root, package],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(date)},
    )
    shutil.rmtree(root)
    return package


def _add(path: Path, text: str | None) -> Path:
    """Make the directory of a path, and the file where there is a text; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        path.write_text(text, encoding="utf-8")
    return path


def _pack(path: Path) -> None:
    """Put NAME.gz in the place of a file; the same content makes the same bytes."""
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
