"""`opavnic bench fabric`: figures that are there and make sense."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from native_module import BUILT
from opavnic.cli.bench import app


def test_json_has_hops_routing_and_memory() -> None:
    outcome = CliRunner().invoke(app, ["fabric", "--seconds", "0.01", "--hosts", "16", "--json"])
    assert outcome.exit_code == 0
    document = json.loads(outcome.stdout)
    engines = ("python", "native") if BUILT else ("python",)
    assert [(row["hops"], row["time"], row["engine"], row["endpoints"]) for row in document["hops"]] == [
        (hops, time, engine, "python")
        for hops in (1, 3, 5)
        for time in ("at-once", "virtual")
        for engine in engines
    ]
    assert all(row["packets_per_second"] > 0 for row in document["hops"])
    assert [(row["hosts"], row["engine"]) for row in document["routing"]] == [
        (16, "min-hop"),
        (16, "fat-tree"),
    ]
    assert all(row["bytes_per_host"] > 1000 for row in document["routing"])
