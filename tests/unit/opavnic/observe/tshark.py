"""A tshark with the dissectors in its plugin directory, as after `opavnic install-dissectors`."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hfi_sim.wire.captures import DLT_USER0
from opavnic.observe.dissectors import install, script_directories

PLUGINS = Path(".local/lib/wireshark/plugins")
needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is not installed (apt-get install tshark)"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """One field as tshark shows it."""

    value: str
    hex: str
    offset: int
    """Bytes from the start of the packet."""
    size: int
    """Bytes; a part of a number has those of the number."""


@dataclass(slots=True)
class Dissected:
    """All fields of a packet by name, each as often as it occurs, in the order of the tree."""

    fields: dict[str, list[Shown]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        (shown,) = self.fields[name]
        return shown.value

    def number(self, name: str) -> int:
        """The value of a field that occurs once."""
        return int(self[name], 0)

    @property
    def faults(self) -> list[str]:
        """The messages of the expert information."""
        return [shown.value for shown in self.fields.get("_ws.expert.message", [])]


class Tshark:
    """tshark with a home of its own, so that no plugin and no setting of this user takes part."""

    def __init__(self, home: Path) -> None:
        self.home = home
        install(script_directories(), home / PLUGINS)

    def run(self, *arguments: str) -> str:
        """Return what tshark prints; its scripts may not have complained."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        command = ["tshark", *arguments]
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env=environment | {"HOME": str(self.home)},
        )
        assert "Lua" not in run.stderr, run.stderr
        return run.stdout

    def columns(self, capture: Path, *fields: str) -> list[list[str]]:
        """Return some fields of each packet."""
        options = [word for name in fields for word in ("-e", name)]
        return [
            line.split("\t") for line in self.run("-r", str(capture), "-T", "fields", *options).splitlines()
        ]

    def dissect(self, capture: Path, *options: str) -> list[Dissected]:
        """Return all fields of each packet."""
        text = self.run("-r", str(capture), "-T", "json", "-x", "--no-duplicate-keys", *options)
        return [_flatten(packet["_source"]["layers"]) for packet in json.loads(text)]


def _flatten(layers: dict[str, Any]) -> Dissected:
    packet = Dissected()
    for name, value, raw in _walk(layers):
        packet.fields.setdefault(name, []).append(Shown(value, raw[0], raw[1], raw[2]))
    return packet


def _walk(node: Any) -> Iterator[tuple[str, str, list[Any]]]:
    if isinstance(node, list):
        for item in node:
            yield from _walk(item)
    if not isinstance(node, dict):
        return
    for name, value in node.items():
        values = value if isinstance(value, list) else [value]
        if name.endswith("_raw"):
            continue
        raws = node.get(f"{name}_raw", ["", 0, 0])
        raws = raws if raws and isinstance(raws[0], list) else [raws] * len(values)
        for item, raw in zip(values, raws, strict=False):
            if isinstance(item, str):
                yield name, item, raw
        yield from _walk(value)


def write_pcap(path: Path, packets: Sequence[bytes | tuple[bytes, int]], link_type: int = DLT_USER0) -> Path:
    """Write a pcap file. A packet may come with the size it had on the wire, where not all of it was captured."""
    cut = [packet if isinstance(packet, tuple) else (packet, len(packet)) for packet in packets]
    records = (struct.pack("<IIII", 0, 0, len(data), size) + data for data, size in cut)
    head = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, link_type)
    path.write_bytes(head + b"".join(records))
    return path
