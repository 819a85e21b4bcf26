"""The bill of materials of a wheel or a package, in CycloneDX's JSON: what comes with it in Python, and its crates.

Versions and licences of a wheel are those of the environment in which this runs; crates are those of native/Cargo.lock.
The same sources and the same environment make the same bytes.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any, Final

NAME: Final = "opavnic"
SPEC: Final = "1.5"
_REQUIRED: Final = re.compile(r"^([A-Za-z0-9][\w.-]*)(?![^;]*;.*extra\s*==)")


def bill(project: Path, version: str, packages: Path | None = None) -> str:
    """Return the document.

    Args:    version: of the wheel. packages: all that is installed in this directory; None: what the wheel requires.
    """
    component = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{NAME}@{version}",
        "name": NAME,
        "version": version,
        "purl": f"pkg:pypi/{NAME}@{version}",
        "licenses": [{"license": {"id": "BSD-3-Clause"}}],
    }
    found = {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {"component": component},
        "components": [*_python(_installed(packages) if packages else _required()), *_crates(project)],
    }
    return json.dumps(found, indent=1) + "\n"


def _python(found: Mapping[str, Distribution]) -> list[dict[str, Any]]:
    return [_component("pypi", key, one.version, _licence(one)) for key, one in sorted(found.items())]


def _installed(packages: Path) -> dict[str, Distribution]:
    found = {_key(one.name): one for one in distributions(path=[str(packages)])}
    return {key: one for key, one in found.items() if key != NAME}


def _required() -> dict[str, Distribution]:
    """Return what the wheel requires, and what that requires, as far as it is installed here."""
    known: dict[str, Distribution] = {}
    due = _requires(distribution(NAME))
    while due:
        name = due.pop()
        key = _key(name)
        if key in known:
            continue
        try:
            known[key] = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform or another Python
        due += _requires(known[key])
    return known


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requires(one: Distribution) -> list[str]:
    return [match[1] for line in one.requires or () if (match := _REQUIRED.match(line))]


def _licence(one: Distribution) -> str:
    """Return the licence in a word: the expression, or the last part of its classifier."""
    said = one.metadata
    if expression := said.get_all("License-Expression"):
        return str(expression[0])
    classified = [
        line.rpartition(" :: ")[2] for line in said.get_all("Classifier") or () if line.startswith("License")
    ]
    return ", ".join(classified) or (said.get_all("License") or [""])[0].partition("\n")[0]


def _crates(project: Path) -> list[dict[str, Any]]:
    locked = tomllib.loads((project / "native/Cargo.lock").read_text(encoding="utf-8"))["package"]
    found = []
    for crate in locked:
        if "source" in crate:  # ours have none
            one = _component("cargo", crate["name"], crate["version"], "")
            found.append({**one, "hashes": [{"alg": "SHA-256", "content": crate["checksum"]}]})
    return found


def _component(kind: str, name: str, version: str, licence: str) -> dict[str, Any]:
    purl = f"pkg:{kind}/{name}@{version}"
    one: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return {**one, "licenses": [{"license": {"name": licence}}]} if licence else one
