"""The settings of a fabric manager that follow from a lab file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from opavnic.lab.file.fm_config import opafm_xml, virtual_fabrics
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.model import LabModel
from program import ok

CHECK = Path("/usr/lib/opa-fm/bin/config_check")


def lab(*vesws: tuple[int, int], manager: str = "external") -> LabModel:
    """Return a lab with virtual switches of these P_Keys and MTUs."""
    lines = [
        f"- {{id: {n}, name: v{n}, pkey: {pkey:#x}, mtu: {mtu}, members: [h1, h2]}}"
        for n, (pkey, mtu) in enumerate(vesws, 1)
    ]
    text = "\n".join(
        ["name: x", "hosts: {h1: {}, h2: {}}", f"subnet_manager: {manager}", "vesws:", *lines, ""]
    )
    return parse_lab(text, "lab.yaml")


def fabrics_of(text: str) -> dict[str, dict[str, str | None]]:
    """Return the virtual fabrics of a document, by name."""
    return {
        str(found.findtext("Name")): {part.tag: part.text for part in found}
        for found in ET.fromstring(text).iter("VirtualFabric")  # noqa: S314 - our own
    }


def test_each_partition_gets_a_virtual_fabric_with_a_level_of_its_own() -> None:
    fabrics = fabrics_of(opafm_xml(lab((0x8002, 1500), (0x8003, 9000), (0x8002, 4000))))
    assert list(fabrics) == ["Default", "Admin", "VNIC_8002", "VNIC_8003"]
    blue, red = fabrics["VNIC_8002"], fabrics["VNIC_8003"]
    assert (blue["PKey"], blue["BaseSL"], blue["MaxMTU"], blue["QOS"]) == ("0x0002", "1", "4096", "1")
    assert (red["PKey"], red["BaseSL"], red["MaxMTU"]) == ("0x0003", "2", "10240")


def test_groups_of_a_partition_belong_to_its_virtual_fabric() -> None:
    text = opafm_xml(lab((0x8002, 1500)))
    masks = {a.findtext("Name"): a.findtext("MGIDMasked") for a in ET.fromstring(text).iter("Application")}  # noqa: S314
    assert masks["VNIC_8002"] == "0xff15000080020000:0*0xffff0000ffff0000:0xffffffff00000000"


def test_groups_that_ipoib_joins_are_made_where_a_host_has_hfi1() -> None:
    plain = lab((0x8002, 1500))
    assert "<Multicast>" not in opafm_xml(plain)
    text = "name: x\nhosts: {h1: {}, k1: {kernel: hfi1}}\nsubnet_manager: external\n"
    (group,) = ET.fromstring(opafm_xml(parse_lab(text, "lab.yaml"))).iter("MulticastGroup")  # noqa: S314
    assert "0xff12401b80010000:0x00000000ffffffff" in [mgid.text for mgid in group.iter("MGID")]
    assert (group.findtext("VirtualFabric"), group.findtext("Create")) == ("Default", "1")


def test_default_and_management_partitions_stay_with_their_own_virtual_fabrics() -> None:
    text = opafm_xml(lab((0x8001, 1500), (0xFFFF, 1500)))
    assert list(fabrics_of(text)) == ["Default", "Admin"]
    assert "<Application>VNIC_8001</Application>" in text
    assert "<Application>VNIC_ffff</Application>" in text


def test_more_partitions_than_levels_share_one() -> None:
    found = virtual_fabrics(lab(*((0x8002 + n, 1500) for n in range(8))))
    assert {fabric.base_sl for fabric in found} == {None}


def test_lab_with_a_subnet_manager_of_its_own_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(match="write `subnet_manager: external`"):
        opafm_xml(lab((0x8002, 1500), manager="builtin"))


@pytest.mark.skipif(not CHECK.exists(), reason="opa-fm is not installed (make opa-tools)")
@pytest.mark.parametrize(
    "vesws",
    [(), ((0x8002, 1500),), ((0x8001, 1500), (0xFFFF, 9000)), tuple((0x8002 + n, 2000) for n in range(12))],
)
def test_fabric_manager_understands_it(vesws: tuple[tuple[int, int], ...], tmp_path: Path) -> None:
    file = tmp_path / "opafm.xml"
    file.write_text(opafm_xml(lab(*vesws)))
    assert shutil.which(CHECK)
    ok(subprocess.run([CHECK, "-s", "-c", file], capture_output=True, text=True, timeout=60, check=False))
