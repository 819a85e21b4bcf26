"""Turns of phrase that stay out of the code and the pages: prints FILE:LINE, the turn and what to write; exit 1 if any.

python -m tools.english [PATH...]     by default the whole product
python -m tools.english --count       the number in each directory of the product
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

PRODUCT = ("hfi_sim", "vema", "opavnic", "ejfat", "lnet", "native", "docs", "bench/results", "README.md")
"""Directories and files that must have none."""
_VERBS = "waits|asks|looks|sends|has|is|wants|started|asked|waited|sees|reads"
TURNS = {
    r"goes in a circle|go in a circle": "a forwarding loop",
    r"\bfor ever\b": "forever, permanently",
    r"(?<!owner: )\bnobody\b": "no port, no peer, no one: name what is missing",
    r"\bwhoever\b": "the caller, the reader, any machine: name it",
    r"\bsomebody\b": "a user, a peer, another thread: name it",
    rf"\bwho (?:{_VERBS})\b(?! \{{)": "the waiter, the requester, the observer: name it",
    r"\b(?:that|which) (?:is|are) none\b": "malformed, invalid",
    r"\bis another(?: now| than)\b": "has changed, differs",
    r"\bwrong in the question\b": "invalid request",
    r"\bbrings? about\b": "causes",
    r"\bheeds?\b": "covers, considers",
    r"\bin vain\b": "failed, was refused",
    r"\bclocks? of the wall\b": "wall clock",
    r"\bsaved? up nothing\b": "accumulates no credit",
    r"\bthat went\b": "that left",
    r"\bwhatever\b": "any, each, even if",
    r"\bwhichever\b": "any, the larger, the first",
    r"\bwhom\b": "name the receiver",
    r"\b(?:is|are) none of\b": "is not one of",
    r"\banother than\b": "differs from, other than",
    r"\b(?:came|come|comes) of it\b": "the result",
}
"""A regular expression in lower case, and what to write in its place."""
_SUFFIXES = frozenset({".py", ".rs", ".md"})
_OTHERS = re.compile(r"_pb2|\bnative/target\b")
_GENERATED = "//! Made by `make generated` "
"""The Python module that the file names has the same texts, and is checked itself."""


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number, turn and advice for each turn in a file."""
    text = path.read_text().lower()
    if text.startswith(_GENERATED.lower()):
        return
    for turn, advice in TURNS.items():
        for match in re.finditer(turn, text):
            yield text.count("\n", 0, match.start()) + 1, match.group(), advice


def files(paths: Iterable[str]) -> Iterator[Path]:
    """Yield the tracked texts under these paths. Raises ValueError: a path is untracked."""
    for given in paths:
        listed = _listed(given)
        if not listed:
            raise ValueError(f"tools/english.py: {given} is not a tracked file or directory")
        for name in listed:
            path = Path(name)
            if path.suffix in _SUFFIXES and not _OTHERS.search(name) and path.exists():
                yield path


def _listed(path: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "--", path], capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def main(arguments: list[str]) -> int:
    """Check; return the exit code."""
    if arguments == ["--count"]:
        counts = Counter(path.parts[0] for path in files(PRODUCT) for _ in findings(path))
        for part, count in sorted(counts.items()):
            print(f"{part}: {count}")
        print(f"all: {sum(counts.values())}")
        return 0
    try:
        chosen = list(files(arguments or PRODUCT))
    except ValueError as error:
        print(error)
        return 1
    found = [(path, *one) for path in chosen for one in sorted(findings(path))]
    for path, number, turn, advice in found:
        print(f'{path}:{number}: "{turn}": write {advice}')
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
