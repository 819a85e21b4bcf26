"""Encapsulation vectors against a kernel, with our datapath in the kernel's place: its entropy is its own."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from opavnic.conformance.datapaths import PythonDatapath
from opavnic.conformance.sending_kernel import OWN_PORT, TAG_BESIDE, run_encap_kernel, unsealed
from opavnic.conformance.vector_setup import EncapSituation

VECTORS = Path(__file__).parents[1] / "vectors" / "encap-1.jsonl.gz"


@pytest.fixture(scope="module")
def untagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 60 cases without tags, for which our datapath does what the driver does."""
    path = tmp_path_factory.mktemp("vectors") / "encap.jsonl"
    with gzip.open(VECTORS, "rt") as file:
        cases = (line for line in file if "vlan" not in line.partition('"frame_kind":')[2][:12])
        path.write_text("".join(line for line in itertools.islice(cases, 60) if "qinq" not in line))
    return path


class Driver:
    """Our datapath with an entropy of its own for each packet, and with a change to each."""

    def __init__(self, change: Callable[[bytes], bytes] = bytes) -> None:
        self._change = change
        self._random = Random(1)
        self.sent: dict[bytes, bool] = {}
        """Whether a frame left when it was sent last."""

    def encap(self, situation: EncapSituation) -> bytes | None:
        packet = PythonDatapath().encap(replace(situation, flow_hash=self._random.randrange(1 << 32))).packet
        self.sent[situation.frame] = packet is not None
        return None if packet is None else self._change(unsealed(packet))


def test_a_driver_with_an_entropy_of_its_own_passes(untagged: Path) -> None:
    result = run_encap_kernel(untagged, Driver().encap)
    assert [line for difference in result.differences for line in difference.lines()] == []
    assert result.ok
    assert result.by_design[OWN_PORT] > 2
    assert result.total + result.unsent[TAG_BESIDE] == len(untagged.read_text().splitlines())


@pytest.mark.parametrize("place", [0, 8, 20, -1])
def test_a_byte_that_differs_fails_each_packet(untagged: Path, place: int) -> None:
    def change(packet: bytes) -> bytes:
        changed = bytearray(packet)
        changed[place] ^= 1
        return bytes(changed)

    driver = Driver(change)
    assert run_encap_kernel(untagged, driver.encap).failed == sum(driver.sent.values())


def test_a_driver_that_sends_nothing_fails(untagged: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"  # each is tried with every entropy
    few.write_text("".join(untagged.read_text().splitlines(keepends=True)[:15]))
    assert run_encap_kernel(few, lambda _: None).failed > 5


def test_a_case_that_differs_once_passes(untagged: Path) -> None:
    driver, garbled = Driver(), [True]

    def encap(situation: EncapSituation) -> bytes | None:
        packet = driver.encap(situation)
        return packet and packet[:-1] + b"\xff" if garbled and garbled.pop() else packet

    assert run_encap_kernel(untagged, encap).ok
