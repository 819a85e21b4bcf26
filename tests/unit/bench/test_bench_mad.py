"""`opavnic bench mad`: figures that are there and make sense."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from opavnic.cli.program.bench import app


def test_json_has_a_figure_for_agent_and_fabric_of_each_exchange() -> None:
    outcome = CliRunner().invoke(app, ["mad", "--seconds", "0.01", "--json"])
    assert outcome.exit_code == 0
    document = json.loads(outcome.stdout)
    figures = document["figures"]
    assert {(row["exchange"], row["where"]) for row in figures} >= {
        (exchange, where)
        for exchange in ("Get VeswPortInfo", "Set VeswPortInfo")
        for where in ("agent", "fabric")
    }
    assert all(row["per_second"] > 0 and row["exchanges"] > 0 for row in figures)


def test_table_names_every_exchange() -> None:
    outcome = CliRunner().invoke(app, ["mad", "--seconds", "10ms"])
    assert outcome.exit_code == 0
    assert "Get SummaryCounters" in outcome.stdout
