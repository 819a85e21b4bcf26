"""What is said about names that nobody bears."""

from __future__ import annotations

from hfi_sim.base.text import nearest, unknown_name

HOSTS = ["h1", "h2", "login"]


def test_name_that_is_like_another_is_offered() -> None:
    assert unknown_name("host", "h9", HOSTS) == 'unknown host "h9" (nearest: "h2"; known: h1, h2, login)'
    assert (
        unknown_name("host", "LOGN", HOSTS) == 'unknown host "LOGN" (nearest: "login"; known: h1, h2, login)'
    )
    assert nearest("logn", HOSTS) == "known: h1, h2, login; nearest: login"


def test_name_that_is_like_none_is_offered_nothing() -> None:
    assert unknown_name("host", "zebra", HOSTS) == 'unknown host "zebra" (known: h1, h2, login)'
    assert nearest("zebra", HOSTS) == "known: h1, h2, login"
    assert unknown_name("host", "h1", []) == 'unknown host "h1" (none exist)'
