"""ESnet's own doctor against the load balancer and its control plane: both IP versions, all strategies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from interop.network import ADMIN, CONTROL_PORT, Network, address
from interop.peers import udplbd, udplbd2_source

URI = f"ejfat://{ADMIN}@{address(1)}:{CONTROL_PORT}/"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def _program() -> None:
    udplbd()
    udplbd2_source("etc/example-config.yml")


@pytest.mark.parametrize("version", [4, 6])
def test_doctor_passes(wire: Network, version: int) -> None:
    wire.balancer(
        "lb", "--ipv4", "10.7.0.100", "--ipv6", "fd07::100", "--listen", f"{address(1)}:{CONTROL_PORT}"
    )
    # the program reads its stock configuration first; the URI says which control plane is examined
    stock = str(udplbd2_source("etc/example-config.yml"))
    examine(wire, stock, URI, address(2, version))


@pytest.mark.parametrize("version", [4, 6])
def test_doctor_chains_two_reservations_of_one_load_balancer(wire: Network, version: int) -> None:
    addresses = ["--ipv4", "10.7.0.100", "--ipv4", "10.7.0.101", "--ipv6", "fd07::100", "--ipv6", "fd07::101"]
    wire.balancer("lb", *addresses, "--listen", f"{address(1)}:{CONTROL_PORT}")
    done = wire.run(
        "src", udplbd(), "-c", str(udplbd2_source("etc/example-config.yml")), "--log-level", "error",
        "dataplane", "--url", URI, "doctor", "--addresses", address(2, version), "--chain",
        timeout_s=300, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["errors"] == [], done.stderr
    assert [told[name] for name in ("chain_ok", "cycle_rejected", "unchain_ok")] == [True] * 3
    assert told["packets_received"] >= told["packets_sent"] - wire.overflowed("src")


def examine(wire: Network, config: str, uri: str, *addresses: str) -> None:
    """Run the doctor at the source, and check what it says and what it measured."""
    done = wire.run(
        "src", udplbd(), "-c", config, "--log-level", "error", "dataplane", "--url", uri,
        "doctor", "--addresses", ",".join(addresses), timeout_s=600, check=False,
    )  # fmt: skip
    overflowed = wire.overflowed("src")
    told, rest = [], done.stdout.strip()
    while rest:
        one, end = json.JSONDecoder().raw_decode(rest)
        told.append(one)
        rest = rest[end:].strip()
    assert [one["address"] for one in told] == list(addresses), done.stderr
    for one in told:
        check(one, overflowed)
    assert done.returncode == 0 or overflowed, done.stdout


def check(told: dict[str, Any], overflowed: int) -> None:
    """Check what the doctor measured, of which its own verdict looks at a part only.

    Args:  overflowed: the datagrams that its own sockets had no room for.
    """
    dynamic, static, explicit = told["dynamic"], told["static_strategy"], told["explicit"]
    assert dynamic["errors"] == static["errors"] == explicit["errors"] == []
    assert dynamic["packets_received"] >= dynamic["packets_sent"] - overflowed
    shares = dynamic["distribution_recv1"], dynamic["distribution_recv2"]
    assert dynamic["distribution_sent"] >= sum(shares) >= dynamic["distribution_sent"] - overflowed
    assert min(shares) > dynamic["distribution_sent"] // 3
    assert dynamic["split_event_count"] <= overflowed, "an event that lacks a packet looks like a split one"
    assert dynamic["remove_add_after_remove"] < 50, "of 500 events, those sent until the sender was removed"
    updated = static["updated_recv1"], static["updated_recv2"]
    assert 2000 >= sum(updated) >= 2000 - overflowed
    assert 0.2 < updated[0] / sum(updated) < 0.35, "128 slots of 512 after the change"
    assert 25 < explicit["initial_loss_pct"] < 75, (
        "half of the slots have no worker, and at first none has one"
    )
    assert 2000 >= explicit["updated_recv"] >= 2000 - overflowed
