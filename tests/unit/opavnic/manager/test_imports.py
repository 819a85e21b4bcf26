"""What the manager imports: nothing of labs that run, of simulated fabrics, of TAPs; of other packages, two."""

from __future__ import annotations

import subprocess
import sys

ALLOWED = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection", "yaml"}
ALLOWED_OURS = (
    "hfi_sim.base", "hfi_sim.wire", "hfi_sim.management.mad", "hfi_sim.management.sa", "hfi_sim.management.umad.abi",
    "vema.base", "vema.attributes", "vema.em", "opavnic.base", "opavnic.state", "opavnic.manager",
    "opavnic.management.em_service", "opavnic.lab.file", "opavnic.lab.ownership.places", "opavnic.cli",
)  # fmt: skip
SCRIPT = """
import sys
from opavnic.cli import manage_at_once
import opavnic.manager.run
print(*sorted(sys.modules))
"""


def test_manager_imports_no_lab_no_fabric_no_tap() -> None:
    said = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT], capture_output=True, text=True, check=True
    ).stdout
    modules = said.split()
    ours = [
        name for name in modules if name.partition(".")[0] in ("hfi_sim", "vema", "opavnic", "ejfat", "lnet")
    ]
    packages = {name for name in ours if f"{name}." in " ".join(ours)}
    foreign = [name for name in ours if not name.startswith(ALLOWED_OURS) and name not in packages]
    assert foreign == []
    assert not {
        "opavnic.lab.run",
        "opavnic.lab.hosts",
        "opavnic.world",
        "hfi_sim.nodes",
        "hfi_sim.netdev",
    } & {*ours}
    tops = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    own = {"hfi_sim", "vema", "opavnic", "ejfat", "lnet", "__main__"}
    assert {name for name in tops if not name.startswith(("_", "cython"))} - own <= ALLOWED
