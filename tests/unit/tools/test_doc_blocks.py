"""Blocks of code in the pages: none can be overlooked, and what is not run says why."""

from __future__ import annotations

import pytest

from tools.doc_blocks import blocks, problems, script

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


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("```sh\none\n", "a block has no end"),
        ("```sh\none\n```sh\ntwo\n```\n", "a block has no end"),
        ("```\none\n```\n", "a block names no language"),
        ("Text:\n\n    one\n", "code without a fence:     one"),
        (
            "<!-- not run: tests/no_such_test.py does -->\n```sh\none\n```\n",
            "not run: tests/no_such_test.py is not there",
        ),
        ("<!-- not run: needs hardware -->\n\n```sh\none\n```\n", "a comment `not run` is above no block"),
        ("<!-- before: up -->\nText.\n", "a comment `before` is above no block"),
    ],
)
def test_block_that_no_test_could_find_is_a_problem(broken: str, problem: str) -> None:
    assert list(problems(PAGE)) == []
    assert problem in [found.rstrip() for found in problems(f"{PAGE}\n{broken}")]
