"""What is known of mutants: the tests nearest to each module, those that killed mutants before, and equal mutants."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.floors import ROOT
from tools.mutants.changes import Mutant

_VNIC: Final = ("tests/unit/opavnic/vnic", "tests/unit/opavnic/test_backpressure.py")
_SWITCHES: Final = (
    "tests/unit/hfi_sim/engine/test_forwarding.py",
    "tests/unit/hfi_sim/engine/test_port0.py",
    "tests/unit/hfi_sim/engine/test_boundary.py",
    "tests/unit/hfi_sim/engine/test_abuse.py",
    "tests/scenarios/test_port_rules.py",
)
_FAULTS: Final = (
    "tests/unit/hfi_sim/fabric/faults",
    "tests/unit/hfi_sim/engine/link/test_link.py",
    "tests/unit/hfi_sim/engine/test_boundary.py",
)
_LINK: Final = ("tests/unit/hfi_sim/engine/link", "tests/unit/hfi_sim/engine/test_boundary.py")
_ROUTING: Final = ("tests/unit/hfi_sim/routing", "tests/unit/hfi_sim/subnet_manager/test_steering.py")
_AGENT: Final = ("tests/unit/vema/agent", "tests/unit/vema/attributes")
_EM: Final = (
    "tests/unit/vema/em/core",
    "tests/unit/vema/em/desired",
    "tests/unit/vema/em/service",
    "tests/unit/vema/em/test_apply.py",
    "tests/unit/vema/em/test_movement_law.py",
)
_RAILS: Final = (
    "tests/unit/lnet/test_objects.py",
    "tests/unit/lnet/test_lnd.py",
    "tests/unit/lnet/test_lnd_silence.py",
    "tests/unit/lnet/test_node.py",
    "tests/scenarios/test_lnet_sanity.py",
    "tests/scenarios/test_lnet_recovery.py",
    "tests/scenarios/test_lnet_multi_rail.py",
    "tests/unit/lnet/test_lnetctl.py",
    "tests/unit/lnet/test_lnetctl_real.py",
)
_EVENTS: Final = (
    "tests/unit/ejfat/test_ejfat_reassembly.py",
    "tests/unit/ejfat/test_ejfat_reassembly_law.py",
    "tests/unit/ejfat/test_ejfat_runs.py",
)
_CLUSTER: Final = ("tests/unit/opavnic/cluster/machines/test_gate.py",)
_CHANGES: Final = (
    "tests/unit/opavnic/lab/change",
    "tests/scenarios/test_changes.py",
    "tests/scenarios/test_rails.py",
)
_HOSTS: Final = (
    "tests/unit/opavnic/lab/hosts/test_kernel_setup.py",
    "tests/e2e/test_host_setup.py",
    "tests/e2e/test_changed_labs.py",
    "tests/unit/opavnic/lab/change/test_live.py",
)

NEAREST: Final[dict[str, tuple[str, ...]]] = {
    "opavnic/vnic/encap.py": _VNIC,
    "opavnic/vnic/receive.py": _VNIC,
    "opavnic/vnic/transmit.py": _VNIC,
    "opavnic/vnic/demux.py": _VNIC,
    "opavnic/vnic/mac_table.py": _VNIC,
    "hfi_sim/engine/forwarding.py": _SWITCHES,
    "hfi_sim/engine/switch.py": _SWITCHES,
    "hfi_sim/engine/port.py": (
        *_SWITCHES,
        "tests/unit/hfi_sim/engine/link",
        "tests/unit/hfi_sim/engine/test_abuse.py",
        "tests/scenarios/test_performance.py",
    ),
    "hfi_sim/engine/link/arbiter.py": _LINK,
    "hfi_sim/engine/link/credits.py": (
        *_LINK,
        "tests/unit/hfi_sim/fabric/test_waits.py",
        "tests/unit/hfi_sim/engine/test_random_fabrics.py",
    ),
    "hfi_sim/engine/link/direction.py": (
        *_LINK,
        "tests/scenarios/test_port_rules.py",
        "tests/scenarios/test_vl_counters.py",
    ),
    "hfi_sim/engine/link/faults.py": (*_FAULTS, "tests/unit/hfi_sim/engine/test_abuse.py"),
    "hfi_sim/fabric/faults/kinds.py": (*_FAULTS, "tests/unit/opavnic/lab/test_own_fabric.py"),
    "hfi_sim/fabric/faults/manager.py": (*_FAULTS, "tests/unit/opavnic/world/test_change_log.py"),
    "hfi_sim/fabric/faults/targets.py": _FAULTS,
    "hfi_sim/routing/deadlock.py": _ROUTING,
    "hfi_sim/routing/dimension_order.py": _ROUTING,
    "hfi_sim/routing/engines.py": _ROUTING,
    "hfi_sim/routing/graph.py": _ROUTING,
    "hfi_sim/routing/lane_shift.py": _ROUTING,
    "hfi_sim/routing/multicast.py": _ROUTING,
    "hfi_sim/routing/table.py": _ROUTING,
    "vema/agent/agent.py": _AGENT,
    "vema/attributes/traps.py": _AGENT,
    "vema/em/core/audit.py": _EM,
    "vema/em/core/core.py": _EM,
    "vema/em/core/dialogue.py": _EM,
    "vema/em/core/port_lives.py": _EM,
    "vema/em/core/state.py": _EM,
    "vema/em/core/virtual_switches.py": _EM,
    "vema/em/core/turns.py": _EM,
    "vema/em/desired/desired.py": _EM,
    "vema/em/desired/ports.py": _EM,
    "vema/em/desired/election.py": _EM,
    "vema/em/desired/mac_tables.py": _EM,
    "vema/em/desired/movement.py": _EM,
    "vema/em/desired/plan.py": _EM,
    "vema/em/desired/ranges.py": _EM,
    "vema/em/desired/subnets.py": (*_EM, "tests/unit/opavnic/lab/file/test_model.py"),
    "lnet/node/deliveries.py": _RAILS,
    "lnet/node/lnd.py": _RAILS,
    "lnet/objects/objects.py": _RAILS,
    "lnet/objects/peers.py": _RAILS,
    "lnet/objects/stats.py": _RAILS,
    "lnet/routes/bonding.py": _RAILS,
    "lnet/routes/messages.py": _RAILS,
    "lnet/routes/multi_rail.py": _RAILS,
    "lnet/routes/rails.py": _RAILS,
    "ejfat/events/stream.py": _EVENTS,
    "ejfat/events/reassembly.py": _EVENTS,
    "ejfat/events/event.py": (*_EVENTS, "tests/unit/ejfat/test_ejfat_pipeline.py"),
    "ejfat/events/uri.py": ("tests/unit/ejfat/test_ejfat_uri.py",),
    "ejfat/control/epochs/calendar.py": (
        "tests/unit/ejfat/test_ejfat_calendar.py",
        "tests/unit/ejfat/test_ejfat_prefixes.py",
    ),
    "opavnic/cluster/protocol/frames.py": _CLUSTER,
    "opavnic/lab/change/difference.py": _CHANGES,
    "opavnic/lab/change/edits.py": _CHANGES,
    "opavnic/lab/change/live.py": _CHANGES,
    "opavnic/lab/change/live_steps.py": _CHANGES,
    "opavnic/lab/change/numbers.py": _CHANGES,
    "opavnic/lab/hosts/kernel_setup.py": _HOSTS,
    "opavnic/lab/hosts/reconcile.py": _HOSTS,
}
"""The modules that decide, and the tests that are nearest to each."""

_PLACE: Final = Path(__file__).parent
EQUAL: Final = _PLACE / "equal.toml"
"""Mutants that no user can notice, each with the reason."""
KILLERS: Final = _PLACE / "killers.toml"
"""Tests that killed mutants, by module and function: they are tried first."""


def equal_mutants() -> dict[tuple[str, str, str], str]:
    """Return the reason of each mutant that no user can notice, by its key."""
    rows = tomllib.loads(EQUAL.read_text())["equal"]
    return {(row["module"], row["function"], row["change"]): row["reason"] for row in rows}


class Killers:
    """Test functions that killed mutants: likely to kill their neighbours, and much cheaper than all."""

    def __init__(self, known: dict[str, dict[str, list[str]]]) -> None:
        self._known = known

    @classmethod
    def read(cls) -> Killers:
        """Return those of killers.toml that are still there."""
        rows: dict[str, dict[str, list[str]]] = tomllib.loads(KILLERS.read_text()) if KILLERS.exists() else {}
        return cls(
            {
                module: {function: list(filter(_is_there, tests)) for function, tests in functions.items()}
                for module, functions in rows.items()
            }
        )

    def learn(self, mutant: Mutant, line: str) -> None:
        """Keep the test that a line of pytest's summary names."""
        if test := failed_test(line):
            tests = self._known.setdefault(mutant.path, {}).setdefault(mutant.function, [])
            if test not in tests:
                tests.append(test)

    def of_module(self, module: str) -> list[str]:
        """Return the tests that killed mutants of a module, each once."""
        return list(dict.fromkeys(test for tests in self._known.get(module, {}).values() for test in tests))

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that killed mutants of its module, those of its function first."""
        return list(
            dict.fromkeys(
                [*self._known.get(mutant.path, {}).get(mutant.function, ()), *self.of_module(mutant.path)]
            )
        )

    def write(self) -> None:
        """Write killers.toml."""
        lines = ["# Tests that killed mutants: made by `python -m tools.mutants --learn`."]
        for module, functions in sorted(self._known.items()):
            lines.append(f'\n["{module}"]')
            for function, tests in sorted(functions.items()):
                lines += [f'"{function}" = [', *(f'  "{test}",' for test in tests), "]"]
        KILLERS.write_text("\n".join(lines) + "\n")


def failed_test(line: str) -> str:
    """Return the test that a line of pytest's summary names, without its parameters; "" if it names none."""
    found = re.match(r"(?:FAILED|ERROR) ([^ \[]+::[^ \[]+)", line)
    return "" if found is None else found[1]


def _is_there(test: str) -> bool:
    path, name, *_ = test.split("::")
    return (ROOT / path).is_file() and re.search(rf"\b{name}\b", (ROOT / path).read_text()) is not None


def nearest_files(mutant: Mutant, root: Path = ROOT) -> list[str]:
    """Return the files of the tests nearest to a mutant: first those that speak most of its module and its function.

    Args:  root: the tree that the tests run in; files may have come and gone in another since it was copied.
    """
    module = mutant.path.removesuffix(".py").replace("/", ".")
    words = [module, *(part for part in mutant.function.split(".") if part and not part.startswith("__"))]
    pattern = re.compile("|".join(rf"\b{re.escape(word.lstrip('_'))}\b" for word in words))
    files = dict.fromkeys(file for name in NEAREST[mutant.path] for file in _files(root, name))
    texts = {file: (root / file).read_text() for file in files}
    return sorted(
        files, key=lambda file: (f"{module} import" not in texts[file], -len(pattern.findall(texts[file])))
    )


def _files(root: Path, name: str) -> Iterator[str]:
    path = root / name
    for file in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
        yield str(file.relative_to(root))
