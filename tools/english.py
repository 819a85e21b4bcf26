"""Turns of phrase that stay out of the code and the pages: prints FILE:LINE, the turn and what to write; exit 1 if any.

python -m tools.english [PATH...]     by default `CLEAN`, the directories and pages that have been cleaned
python -m tools.english --count       the number in each directory of the product
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

CLEAN = (
    "hfi_sim/engine",
    "hfi_sim/base/counters.py",
    "hfi_sim/base/did_you_mean.py",
    "opavnic/cluster",
    "docs/cluster.md",
    "docs/cluster-transport.md",
    "docs/engine.md",
    "docs/datapath.md",
    "native",
    "bench/results",
)
"""Directories and files that must have none; the list grows to the whole product."""
PRODUCT = ("hfi_sim", "vema", "opavnic", "ejfat", "lnet", "native", "docs", "README.md")
TURNS = {
    r"goes in a circle|go in a circle": "a forwarding loop",
    r"\bfor ever\b": "forever, permanently",
    r"\bnobody\b": "no port, no peer, no one: name what is missing",
    r"\bwhoever\b": "the caller, the reader, any machine: name it",
    r"\bsomebody\b": "a user, a peer, another thread: name it",
    r"\bwho (?:waits|asks|looks|sends|has|is|wants|started)\b": "the waiter, the requester, the observer: name it",
    r"\b(?:that|which) (?:is|are) none\b": "malformed, invalid",
    r"\bis another(?: now| than)\b": "has changed, differs",
    r"\bwrong in the question\b": "invalid request",
    r"\bbrings? about\b": "causes",
    r"\bheeds?\b": "covers, considers",
    r"\bin vain\b": "failed, was refused",
    r"\bclocks? of the wall\b": "wall clock",
    r"\bsaved? up nothing\b": "accumulates no credit",
    r"\bthat went\b": "that left",
}
"""A regular expression in lower case, and what to write in its place."""
_SUFFIXES = frozenset({".py", ".rs", ".md"})
_OTHERS = re.compile(r"_pb2|\bnative/target\b")
_GENERATED = "//! Made by `make generated` "
"""The Python module that the file names has the same texts, and is checked itself."""


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number, turn and advice for each turn in a file."""
    text = path.read_text()
    lines = [] if text.startswith(_GENERATED) else text.split("\n")
    for number, line in enumerate(lines, 1):
        for turn, advice in TURNS.items():
            for match in re.finditer(turn, line.lower()):
                yield number, match.group(), advice


def files(paths: Iterable[str]) -> Iterator[Path]:
    """Yield the tracked texts under these paths."""
    listed = subprocess.run(["git", "ls-files", "--", *paths], capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = Path(name)
        if path.suffix in _SUFFIXES and not _OTHERS.search(name) and path.exists():
            yield path


def main(arguments: list[str]) -> int:
    """Check; return the exit code."""
    if arguments == ["--count"]:
        counts = Counter(path.parts[0] for path in files(PRODUCT) for _ in findings(path))
        for part, count in sorted(counts.items()):
            print(f"{part}: {count}")
        print(f"all: {sum(counts.values())}")
        return 0
    found = [(path, *one) for path in files(arguments or CLEAN) for one in findings(path)]
    for path, number, turn, advice in found:
        print(f'{path}:{number}: "{turn}": write {advice}')
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
