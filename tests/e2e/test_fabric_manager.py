"""The real Omni-Path fabric manager runs the fabric of a lab; the lab's Ethernet Manager works beside it."""

from __future__ import annotations

import contextlib
import json

import pytest

from e2e.conftest import Program
from e2e.managed_lab import ManagedLab, require_fabric_manager


@pytest.fixture(autouse=True)
def _with_fabric_manager() -> None:
    require_fabric_manager()


@pytest.fixture
def lab(opavnic: Program) -> ManagedLab:
    return ManagedLab(opavnic)


def test_nothing_passes_until_a_fabric_manager_is_there(lab: ManagedLab) -> None:
    assert str(lab.manager()["state"]).startswith("awaited: ")
    assert not lab.is_up()
    assert {host["lid"] for host in lab.status()["hosts"]} == {0}


NOT_THERE = "the fabric manager has no virtual fabric with P_Key 0x8002 (blue): `opavnic fm config`"
NO_GROUP = "its virtual fabric needs an Application for MGIDs ff15:0:8002::, as `opavnic fm config` writes it"


@pytest.mark.parametrize(
    ("without", "trouble", "reason"),
    [
        ("<PKey>0x0002</PKey>", NOT_THERE, "pkey 0x8002 is not in the table of h1:1"),
        ("<MGIDMasked>0xff15000080020000", NO_GROUP, NO_GROUP),
    ],
    ids=["virtual fabric", "group"],
)
def test_what_a_foreign_fabric_manager_does_not_have_is_said_in_the_state(
    lab: ManagedLab, without: str, trouble: str, reason: str
) -> None:
    text = lab.settings.read_text()
    assert text.count(without) == 1
    pkey = without.replace("0x0002", "0x0012")
    kept = [line for line in text.splitlines() if without not in line or "MGID" not in line]
    lab.settings.write_text("\n".join(kept).replace(without, pkey))
    with lab.fabric_manager("h1"):
        lab.wait(
            "the trouble",
            lambda: trouble in lab.status()["parts"].get("Ethernet Manager", {}).get("trouble", ""),
        )
        lab.wait("its reason", lambda: reason in lab.status()["hosts"][0]["vnics"][0]["reason"])
        assert lab.status()["hosts"][0]["vnics"][0]["state"] == "held down by the EM"


@pytest.mark.slow
@pytest.mark.timeout(900)  # of a dozen waits for a fabric manager
def test_fabric_manager_brings_up_virtual_switches_and_another_takes_over(lab: ManagedLab) -> None:
    """Two partitions with a service level each, the cable of a host, and the master killed with -9."""
    with contextlib.ExitStack() as second:
        with lab.fabric_manager("h1"):
            lab.wait("VNICs up", lab.is_up)
            assert lab.manager()["host"] == "h1"
            lab.wait("blue", lambda: lab.pings("10.9.2.2"))
            lab.wait("red", lambda: lab.pings("10.9.3.2", "-s", "8000"))
            lab.wait("verified", lab.is_verified)
            vesws = json.loads(lab.run("em", "show", "vesws", "--json"))
            assert len({vesw["multicast_lid"] for vesw in vesws["vesws"]}) == 2

            lab.run("fault", "add", "link-down on h2")
            lab.wait("h2 away", lambda: not lab.is_verified())
            lab.run("fault", "clear")
            lab.wait("h2 back", lambda: lab.pings("10.9.2.2") and lab.is_verified())

            second.enter_context(lab.fabric_manager("h2"))
            lab.wait("h1 still the master", lambda: lab.manager()["host"] == "h1")
            standby = ("exec", "h2", "--", "opafabricinfo")
            lab.wait("a standby", lambda: "Standby" in lab.opavnic(*standby).stdout)
        lab.wait("h2 the master", lambda: lab.manager()["host"] == "h2")
        lab.wait("verified", lab.is_verified)
        lab.wait("blue", lambda: lab.pings("10.9.2.2"))
        lab.wait("red", lambda: lab.pings("10.9.3.2", "-s", "8000"))


MIXED = """
name: {name}
fabric:
  id: 0x301
  topology:
    kind: explicit
    switches: {{sA: {{ports: 8}}, sB: {{ports: 8}}}}
    links:
      - {{ends: [h1, "sA:1"], rate: 100G}}
      - {{ends: [h2, "sB:1"], rate: 75G}}
      - {{ends: [h3, "sB:2"], rate: 25G}}
      - {{ends: [h4, "sA:2"], rate: 12.5G}}
      - {{ends: ["sA:8", "sB:8"], rate: 50G}}
hosts: {{h1: {{}}, h2: {{}}, h3: {{}}, h4: {{}}}}
vesws: [{{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: all}}]
subnet_manager: external
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_fabric_of_several_rates_comes_up_and_no_link_is_slow(opavnic: Program) -> None:
    mixed = ManagedLab(opavnic, MIXED)
    with mixed.fabric_manager("h1"):
        mixed.wait("VNICs up", mixed.is_up)
        links = mixed.run("exec", "h1", "--", "opareport", "-o", "links", "-q")
        for rate in ("100g", "75g", "25g", "12.5g", "50g"):
            assert f"{rate} 0x" in links, links
        slow = ("exec", "h1", "--", "opareport", "-o", "slowlinks", "-q")
        assert "6 of 6 Links Checked, 0 Errors found" in mixed.run(*slow)
