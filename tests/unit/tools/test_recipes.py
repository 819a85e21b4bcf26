"""The recipes for options, played on a copy of the tree: a row is all that the rest needs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tools.generate.__main__ import ROOT

COPIED = ("hfi_sim", "vema", "opavnic", "ejfat", "lnet", "tools")
FILES = (
    "docs/reference/links.md",
    "docs/reference/faults.md",
    "native/engine/src/link/rule.rs",
    "native/engine/src/link/config.rs",
    "native/python/src/fabric_args.rs",
)
FAULT_ROW = """    toy: Annotated[
        int, FaultOption("toy", WHOLE, "toys that are lost", 1, 9, kinds=_only(FaultKind.LOSS))
    ] = 1
"""
LINK_ROW = """    toll_ns: Annotated[int, LinkOption("toll", NANOSECONDS, "toll of every packet", 0, 1)] = 0
"""
CREDIT_ROW = """    toy_bytes: Annotated[int, LinkOption("toy", SIZE, "toys of each VL", 0, 4096)] = 0
"""
PLAYED = """
import json
from pathlib import Path
from hfi_sim.base.errors import FaultError
from hfi_sim.fabric.faults import parse_fault, spec_text
from opavnic.cli.manage.fault import _help
from opavnic.lab.file.fabric_model import Credits, LinkModel
from tools.generate import options
from tools.generate.__main__ import stale

def refused(call):
    try:
        call()
    except ValueError as error:
        return str(error)
    except FaultError as error:
        return str(error)

files = stale(Path(), [options.sources, options.pages])
print(json.dumps({
    "text": spec_text(parse_fault("loss on h1 toy=3")),
    "range": refused(lambda: parse_fault("loss on h1 toy=10")),
    "kind": refused(lambda: parse_fault("delay on h1 delay=1us toy=2")),
    "help": _help(),
    "config": LinkModel(down={"toll": "2ms"}).options().down.toll_ns,
    "long": refused(lambda: LinkModel(toll="2s")),
    "credits": LinkModel(credits={"toy": "1K"}).options().up.flow.toy_bytes,
    "many": refused(lambda: Credits(toy="5K")),
    "keys": list(LinkModel.model_json_schema()["properties"]),
    "files": files,
}))
"""


def _insert(path: Path, before: str, text: str) -> None:
    source = path.read_text()
    assert source.count(before) == 1
    path.write_text(source.replace(before, text + before))


def test_row_of_an_option_is_known_to_syntax_help_lab_files_docs_and_native(tmp_path: Path) -> None:
    for folder in COPIED:
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.so", "__pycache__")
        )
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    _insert(tmp_path / "hfi_sim/engine/link/rule.py", "    bits: Annotated[\n", FAULT_ROW)
    _insert(tmp_path / "hfi_sim/engine/link/config.py", "    queue: Annotated[\n", LINK_ROW)
    _insert(tmp_path / "hfi_sim/engine/link/config.py", "    shared_bytes: Annotated[\n", CREDIT_ROW)

    done = subprocess.run(
        [sys.executable, "-c", PLAYED], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    played = json.loads(done.stdout)

    assert played["text"] == "loss on h1 toy=3"
    assert played["range"] == "fault loss: toy is 10, not 1 to 9"
    assert played["kind"] == "fault delay has no option toy; it is for loss"
    assert "toy=" in played["help"]
    assert played["config"] == 2_000_000
    assert "2s, not 0 to 1s" in played["long"]
    assert "toll" in played["keys"]
    assert played["credits"] == 1024
    assert "5K, not 0 to 4K" in played["many"]
    files = played["files"]
    assert sorted(files) == sorted(FILES)
    assert "| `toy` | `loss` | 1 to 9 | 1 | toys that are lost |" in files["docs/reference/faults.md"]
    assert "| `toll` | toll of every packet, 0 to 1s | 0 |" in files["docs/reference/links.md"]
    assert "| `toy` | toys of each VL, 0 to 4K | 0 |" in files["docs/reference/links.md"]
    assert "    pub toy: u64,\n" in files["native/engine/src/link/rule.rs"]
    assert "    pub toll_ns: u64,\n" in files["native/engine/src/link/config.rs"]
    assert "toy: self.toy,\n" in files["native/python/src/fabric_args.rs"]
