"""Examples of commands: each command has one, and what an example shows is compared with what is printed."""

from __future__ import annotations

import pytest

from opavnic.cli.program.tree import pages
from tools.doc_blocks import problems
from tools.examples import by_command, examples, recorded, sessions

SESSION = """# A lab

## opavnic ps

```sh
opavnic ps
```
```text
lab   pid
red   …
…
end
```
"""


def test_each_command_has_an_example() -> None:
    commands = {page.words for page in pages() if not page.commands}
    assert commands - by_command().keys() == set()
    assert by_command().keys() - {page.words for page in pages()} == set()
    for session in sessions():
        assert list(problems(session.read_text(encoding="utf-8"))) == [], session


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("lab pid\nred  17\nend\n", True),
        ("lab    pid\nred    17\nblue   18\ngreen  19\nend\n", True),
        ("lab    pid\nblue   17\nend\n", False),
        ("lab    pid\nred    17\nend\nmore\n", False),
        ("lab    pid\nred    17\n", False),
    ],
)
def test_output_is_that_of_an_example_but_for_what_it_leaves_open(printed: str, same: bool) -> None:
    (example,) = examples(SESSION)
    assert example.words == "opavnic ps"
    assert example.matches(printed) is same
    assert (recorded(SESSION, {0: printed}) == SESSION) is same


def test_recorded_session_shows_what_was_printed() -> None:
    (example,) = examples(recorded(SESSION, {0: "none\n"}))
    assert example.output == "none\n"
