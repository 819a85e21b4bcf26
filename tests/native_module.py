"""The native module in tests: skipped with a reason where it is not built, a failure where it has to be there."""

from __future__ import annotations

import os
from typing import Final

import pytest

from opavnic.datapath.selection import NOT_BUILT, load_native

REQUIRED: Final = os.environ.get("OPAVNIC_REQUIRE_NATIVE") == "1"
"""CI says so: there a test that is skipped because nothing was built would hide what it is to show."""

needs_native: Final = pytest.mark.skipif(not REQUIRED and load_native() is None, reason=NOT_BUILT)
