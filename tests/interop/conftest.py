"""What the tests beside real EJFAT programs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.network import Network, network

from permission import require


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Network]:
    """A load balancer's station, a source and three workers on one switch."""
    require(("ip",))
    with network(tmp_path / "network", lb=1, src=2, w1=3, w2=4, w3=5) as made:
        yield made
