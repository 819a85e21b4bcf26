"""The native module in tests: skipped with a reason where it is not built, a failure where it has to be there."""

from __future__ import annotations

import os
from typing import Final

import pytest

from opavnic.datapath.selection import load_native, why_not_native

REQUIRED: Final = os.environ.get("OPAVNIC_REQUIRE_NATIVE") == "1"
"""CI says so: there a test that is skipped because nothing was built would hide what it is to show."""
BUILT: Final = load_native() is not None


def skip_unless(*, built: bool, required: bool) -> pytest.MarkDecorator:
    """Return the mark of a test that needs the module: skip it where it is missing and may be."""
    return pytest.mark.skipif(not built and not required, reason=why_not_native())


needs_native: Final = skip_unless(built=BUILT, required=REQUIRED)
