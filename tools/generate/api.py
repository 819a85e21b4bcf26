"""The control API: docs/openapi.json and its page, from what the handlers of a lab's routes declare."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from opavnic.lab.change.service import serve_changes
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.daemon import lab_routes
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.logs import LogHub
from opavnic.world.openapi import document
from opavnic.world.parts.control import ControlServer

LABS: Final = (
    """
name: all
hosts:
  h1: {hfis: 1, lnet: {networks: "o2ib0(ib0)", addresses: [10.1.1.1]}}
  h2: {hfis: 1, lnet: {networks: "o2ib0(ib0)", addresses: [10.1.1.2]}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]
""",
    "{name: managed, hosts: {h1: {}}, subnet_manager: external}",
)
"""Labs in which every part that adds routes is there: one of its own, one of a fabric manager."""
_HEAD: Final = """# HTTP API

A running lab answers HTTP with JSON on `control.sock` in its directory (`/run/opavnic/LAB`, see
[install](../how-to/install.md)), a Unix socket that only its user may open. `opavnic` itself asks there.
[openapi.json](../openapi.json) describes it in OpenAPI 3.1; a lab gives its own at `/openapi.json`. Both are made of
what the handlers of the routes declare, as is this page.

<!-- before: opavnic up examples/two-hosts.yaml -d -->
```sh
socket=${OPAVNIC_RUNTIME_DIR:-/run/opavnic}/two-hosts/control.sock
curl -sf --unix-socket $socket http://lab/faults
curl -sf --unix-socket $socket http://lab/faults -d '{"fault": "loss on h1 10%"}'
curl -sf --unix-socket $socket "http://lab/routes?from=h1&to=h2"
```

An error is `{"error": LINE}`: status 400 if the request is wrong in itself, 409 if the lab cannot do it as it is now,
422 with `problems` for a configuration with mistakes, 503 if too many do it at once.

| request | does | takes | answers |
|---|---|---|---|
"""


def described() -> dict[str, Any]:
    """Return the document of labs in memory that have every part."""

    async def ask(text: str) -> dict[str, Any]:
        logging.disable(logging.INFO)
        with tempfile.TemporaryDirectory() as directory:
            hub = LogHub(Path(directory) / "log")
            async with Lab(parse_lab(text, "lab.yaml"), netdev="memory") as lab:
                serve_changes(lab)
                server = ControlServer(Path(directory) / "sock", lab_routes(lab, hub, lab.stop))
                found = document(server.routes, version("opavnic"))
            hub.close()
        logging.disable(logging.NOTSET)
        return found

    found, *others = (asyncio.run(ask(text)) for text in LABS)
    for other in others:
        found["paths"] |= other["paths"]
        found["components"]["schemas"] |= other["components"]["schemas"]
    schemas = dict(sorted(found["components"]["schemas"].items()))
    return found | {"paths": dict(sorted(found["paths"].items())), "components": {"schemas": schemas}}


def pages(_: Path) -> Iterator[tuple[str, str]]:
    """Yield the document and the page about it."""
    found = described()
    yield "docs/openapi.json", json.dumps(found, indent=1) + "\n"
    yield "docs/reference/http.md", _HEAD + "".join(_rows(found))


def _rows(found: dict[str, Any]) -> Iterator[str]:
    for path, operations in found["paths"].items():
        for method, said in operations.items():
            takes = [
                f"`{one['name']}`: {one.get('description', 'in the path')}"
                for one in said.get("parameters", ())
            ]
            if "requestBody" in said:
                members = said["requestBody"]["content"]["application/json"]["schema"]["properties"]
                takes += [f"`{name}` in the body: {one['description']}" for name, one in members.items()]
            answer = said["responses"]["200"]
            (content,) = answer["content"].values()
            name = content["schema"].get("$ref", "").rpartition("/")[2]
            schema = found["components"]["schemas"].get(name, {})
            keys = ", ".join(f"`{key}`" for key in schema.get("required", ()))
            answers = answer["description"] + (f" ({keys})" if keys else "")
            yield f"| `{method.upper()} {path}` | {said['summary']} | {'; '.join(takes)} | {answers} |\n"
