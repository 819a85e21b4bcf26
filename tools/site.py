"""The documentation site with its versions: `python -m tools.site [DIRECTORY]` builds that of this version, strictly.

    DIRECTORY/0.1/            the site of version 0.1.x; those of other versions beside it stay
    DIRECTORY/versions.json   what the menu of versions in the head of each page reads
    DIRECTORY/index.html      leads to the newest

The menu is that of the theme. mike, which the theme names for this, commits each site to a branch of the repository;
a folder is enough here, and nothing of it needs a network. As a hook of MkDocs, this module names the version on each
page.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
VERSION: Final = version("opavnic")
_TO_NEWEST: Final = (
    '<!doctype html><meta http-equiv="refresh" content="0; url={0}/"><a href="{0}/">opavnic {0}</a>\n'
)


def on_config(config: Any, **_: Any) -> Any:
    """Name the version in the head and the title of each page."""
    config.site_name = f"opavnic {VERSION}"
    return config


def listed(versions: list[str]) -> list[dict[str, Any]]:
    """Return the list of versions as the theme reads it, the newest first. Args: versions: `0.9`, `0.10`."""
    ordered = sorted(set(versions), key=lambda one: [int(part) for part in one.split(".")], reverse=True)
    return [
        {"version": one, "title": one, "aliases": [] if at else ["latest"]} for at, one in enumerate(ordered)
    ]


def main(directory: Path = ROOT / "site") -> int:
    """Build the site of this version beside the others in a directory; return the exit status."""
    short = ".".join(VERSION.split(".")[:2])
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        directory / short,
    ]
    built = subprocess.run(command, cwd=ROOT, check=False)
    if built.returncode == 0:
        there = listed([path.name for path in directory.iterdir() if re.fullmatch(r"\d+\.\d+", path.name)])
        (directory / "versions.json").write_text(json.dumps(there, indent=1) + "\n")
        (directory / "index.html").write_text(_TO_NEWEST.format(there[0]["version"]))
        print(f"the site is in {directory / 'index.html'}")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main(*(Path(argument).absolute() for argument in sys.argv[1:2])))
