"""Blocks of code in the pages: none can be overlooked, and what is not run says why."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tools.doc_blocks import ROOT, blocks, pages, script

PAGE = """
Text.

<!-- before: up -->
```sh
one
```

<!-- not run: needs hardware -->
```sh
two
```

```python
three()
```

```text
four
```
"""


def test_blocks_know_what_is_run_and_why_not() -> None:
    found = blocks(PAGE)
    assert [(block.language, block.text, block.not_run) for block in found] == [
        ("sh", "one\n", ""),
        ("sh", "two\n", "needs hardware"),
        ("python", "three()\n", ""),
    ]
    assert script([found[0], found[2]]).splitlines() == [
        "echo '== 0'", "up", "one", "echo '== 1'", "python - <<'END OF PYTHON'", "three()", "END OF PYTHON"
    ]  # fmt: skip


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_block_is_fenced_and_names_its_language(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^```(.*)$", text, re.M)
    assert not len(fences) % 2
    assert all(fences[::2]), "a block without a language"
    assert not any(fences[1::2])
    prose = re.sub(r"^```\w+\n.*?^```$", "", text, flags=re.M | re.S)
    paragraphs = re.split(r"\n{2,}", prose)
    for before, paragraph in itertools.pairwise(paragraphs):
        if paragraph.startswith(("    ", "\t")):
            assert re.match(r" *(?:[-*]|\d+\.) ", before), f"code without a fence: {paragraph[:60]}"
    for block in blocks(text):
        for named in re.findall(r"tests/[\w/]+(?:\.py)?", block.not_run):
            assert (ROOT / named).exists(), named
    assert text.count("<!-- not run:") == sum(bool(block.not_run) for block in blocks(text))
    assert text.count("<!-- before:") == sum(len(block.before) for block in blocks(text))
