"""The bill of materials names what the wheel brings along."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tools.release.sbom import bill

ROOT = Path(__file__).parents[3]


def test_bill_names_each_dependency_and_each_crate_once_with_its_version() -> None:
    text = bill(ROOT, "0.1.0")
    assert text == bill(ROOT, "0.1.0")
    found = json.loads(text)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    purls = [one["purl"] for one in found["components"]]
    assert len(purls) == len(set(purls)) == len({one["bom-ref"] for one in found["components"]})
    python = {one["name"] for one in found["components"] if one["purl"].startswith("pkg:pypi/")}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {line.split(">")[0].lower() for line in wanted if ";" not in line}
    assert names <= python
    assert "markdown-it-py" in python, "what rich requires"
    assert not python & {"pytest", "nicegui", "grpcio"}, "extras are not installed with it"
    lock = tomllib.loads((ROOT / "native/Cargo.lock").read_text())["package"]
    crates = {f"pkg:cargo/{one['name']}@{one['version']}" for one in lock if "source" in one}
    assert crates == {purl for purl in purls if purl.startswith("pkg:cargo/")}


def test_bill_of_a_directory_is_what_is_installed_there(tmp_path: Path) -> None:
    for name, version in (("opavnic", "0.1.0"), ("Some_thing", "2.1")):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nLicense: MIT\n"
        )
    found = [one for one in json.loads(bill(ROOT, "0.1.0", tmp_path))["components"] if "pypi" in one["purl"]]
    assert [(one["purl"], one["licenses"]) for one in found] == [
        ("pkg:pypi/some-thing@2.1", [{"license": {"name": "MIT"}}])
    ]
