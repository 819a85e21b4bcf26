"""The targets file, and the table of targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lnet.base.errors import LnetConfigError
from lnet.settings.targets import parse_targets

FILE = """
# local
10.1.1.2@o2ib0 10.1.1.2, 10.1.1.4     # two devices

10.1.1.3@o2ib1 10.1.1.3 10.1.1.5
"""


def test_file_with_spaces_commas_blank_lines_and_comments() -> None:
    assert [str(target) for target in parse_targets(FILE)] == [
        "10.1.1.2@o2ib 10.1.1.2 10.1.1.4",
        "10.1.1.3@o2ib1 10.1.1.3 10.1.1.5",
    ]


SEVENTEEN = "10.1.1.2@o2ib " + " ".join(f"10.1.2.{i}" for i in range(17))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (SEVENTEEN, "17 addresses; 16 are allowed"),
        ("10.1.1.2 10.1.1.2", "'10.1.1.2' is not a NID"),
        ("10.1.1.2@o2ib 10.1.1.300", "'10.1.1.300' is not an IPv4 address"),
        ("10.1.1.2@o2ib", "has no address"),
        ("10.1.1.2@o2ib 10.1.1.2 10.1.1.2", "10.1.1.2 appears twice"),
        ("10.9.9.9@o2ib 10.1.1.9", "target 10.9.9.9@o2ib appears twice"),
    ],
)
def test_bad_line_is_refused_with_file_and_line(line: str, reason: str) -> None:
    with pytest.raises(LnetConfigError) as caught:
        parse_targets(f"# head\n10.9.9.9@o2ib 10.1.1.1\n{line}\n", "o2ibs.conf")
    assert str(caught.value).startswith("o2ibs.conf:3: ")
    assert reason in str(caught.value)


def test_sixteen_addresses_are_allowed() -> None:
    (target,) = parse_targets(SEVENTEEN.rsplit(" ", 1)[0])
    assert len(target.tg_addr) == 16


@given(st.text(max_size=100))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        targets = parse_targets(text)
    except LnetConfigError:
        return
    assert parse_targets("\n".join(map(str, targets))) == targets
