"""The page about the architecture: every path that it names exists, and every commit is one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/architecture.md").read_text()
_TOPS = (
    "hfi_sim",
    "vema",
    "opavnic",
    "ejfat",
    "lnet",
    "native",
    "tests",
    "tools",
    "docs",
    "bench",
    "examples",
)


def named_paths(text: str) -> set[str]:
    """Return the words in backticks, or bare in a list, that are paths from the root of the repository."""
    words = re.findall(r"`([\w./-]+)`", text) + re.findall(
        r"(?<![\w/`.])((?:tests|tools|docs)/[\w./-]+\w)", text
    )
    return {
        word.rstrip(".")
        for word in words
        if "/" in word and word.split("/")[0] in _TOPS and "NAME" not in word
    }


def named_commits(text: str) -> set[str]:
    """Return the words of 7 to 40 hexadecimal digits with a letter and a digit."""
    words = re.findall(r"\b[0-9a-f]{7,40}\b", text)
    return {word for word in words if not word.isdigit() and not word.isalpha()}


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def test_paths_exist() -> None:
    paths = named_paths(PAGE)
    assert len(paths) > 30, "the page names places"
    assert not sorted(path for path in paths if not (ROOT / path).exists())


def test_commits_are_commits_where_the_history_is_here() -> None:
    commits = named_commits(PAGE)
    assert commits
    if (
        git("rev-parse", "--is-shallow-repository") == "false"
    ):  # no repository, or a part of one: nothing to look at
        assert not sorted(one for one in commits if git("cat-file", "-t", one) != "commit")


def test_what_is_wrong_is_found() -> None:
    text = "See `hfi_sim/fabric/fabric.py` and `hfi_sim/gone.py`; to look at: 7916dce. `make generated`"
    assert named_paths(text) == {"hfi_sim/fabric/fabric.py", "hfi_sim/gone.py"}
    assert named_commits(text) == {"7916dce"}
