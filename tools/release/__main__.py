"""`python -m tools.release [--once] [DIRECTORY]`: build, check and try what is handed out; it ends up in dist/."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tools.release.build import DistError, build, check, differences, make_tools
from tools.release.debian import RELEASES, debian_packages, try_package
from tools.release.sbom import NAME, bill
from tools.release.trial import try_all

PROJECT = Path(__file__).parents[2]


def main() -> int:
    """Run; 0: all is well, 1: the last line says what is not."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=PROJECT / "dist", help="default: dist")
    parser.add_argument("--once", action="store_true", help="build only once: do not compare two builds")
    options = parser.parse_args()
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:5.0f} s  {text}", flush=True)

    kept = PROJECT / "build" / "dist"  # between runs: tools, and what cargo has compiled
    try:
        tools = make_tools(PROJECT, kept / "tools")
        with tempfile.TemporaryDirectory(prefix="opavnic-dist-") as name:
            scratch = Path(name)
            built = build(PROJECT, tools, _made(scratch / "first"), kept / "cargo")
            say(f"built {built.sdist.name} and {built.wheel.name}")
            for line in check(tools, built).splitlines():
                say(line)
            if not options.once:
                again = build(PROJECT, tools, _made(scratch / "second"), kept / "cargo")
                if unlike := differences(built, again):
                    raise DistError("two builds differ: " + "; ".join(unlike))
                same = built.wheel.read_bytes() == again.wheel.read_bytes()
                say(f"built again: the same names and contents{', the wheel byte by byte' if same else ''}")
            for line in try_all(built, PROJECT / "examples", scratch):
                say(line)
            packages = debian_packages(PROJECT, built, _made(scratch / "debian"))
            for package, release in zip(packages, RELEASES, strict=True):
                say(f"built {package.name}, {package.stat().st_size / 1e6:.0f} MB")
                for line in try_package(package, release):
                    say(line)
            options.directory.mkdir(parents=True, exist_ok=True)
            for file in (built.sdist, built.wheel, *packages):
                say(f"in {shutil.copy2(file, options.directory)}")
            version = built.wheel.name.split("-")[1]
            materials = options.directory / f"{NAME}-{version}.cdx.json"
            materials.write_text(bill(PROJECT, version), encoding="utf-8")
            say(f"in {materials}")
    except DistError as error:
        print(f"make dist: {error}", file=sys.stderr)
        return 1
    return 0


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


if __name__ == "__main__":
    sys.exit(main())
