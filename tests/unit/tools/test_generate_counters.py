"""Drop reasons and counters of the native datapath, made from their declarations."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from tools.generate import counters


class Sample(StrEnum):
    """Reasons."""

    ONE_REASON = "one:reason"
    """It takes
    two lines."""
    OTHER = "other"


def test_docs_of_members_come_from_the_source() -> None:
    assert counters.attribute_docs(Sample) == {"ONE_REASON": "It takes two lines."}


def test_names_stand_in_the_order_of_the_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "EjfatDrop", Sample)
    made = dict(counters.sources(Path()))["native/ejfat/src/drops.rs"]
    assert re.findall(r"^    (\w+),$", made, re.MULTILINE) == ["OneReason", "Other"]
    assert re.findall(r'^    "(.*)",$', made, re.MULTILINE) == ["one:reason", "other"]
