"""What pytest loads by itself where opavnic is installed: the plugin, or without its extra, fixtures that name it.

So a pytest that has nothing to do with fabrics runs with and without the extra.
"""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from opavnic.base.packages import advice, is_installed

if is_installed("testing"):
    pytest_plugins = ["opavnic.pytest_plugin"]
else:

    def _missing(name: str) -> Any:
        @pytest.fixture(name=name)
        def missing() -> NoReturn:
            pytest.fail(
                f"the fixture {name} of opavnic needs more packages: {advice('testing')}", pytrace=False
            )

        return missing

    lab, fabric, hosts, em, mad_simulator, fabric_engine = map(
        _missing, ("lab", "fabric", "hosts", "em", "mad_simulator", "fabric_engine")
    )
