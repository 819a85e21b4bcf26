"""The settings of a real fabric manager (opafm.xml) under which a lab's virtual switches work.

Each P_Key of the lab gets a virtual fabric: the partition, a service level of its own, the largest MTU of its virtual
switches, and their multicast groups, which the GIDs tell that the EM makes. What is not said here has the fabric
manager's own default.

Source: opa-fm, fm_xml.h and the comments of opafm.xml.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from hfi_sim.base.types import PKEY_FULL_MANAGEMENT
from hfi_sim.wire.sma.port_info import MTU_BYTES
from opavnic.kernel.drivers import HFI1
from opavnic.lab.file.errors import LabInputError
from opavnic.lab.file.model import LabModel

DEFAULT_PKEY: Final = 0x8001
OWN_LEVELS: Final = 7
"""Service levels besides that of all else: ports have 8 virtual lanes, and each level needs one."""
_BANDWIDTH: Final = 80
"""Percent of the bandwidth that virtual fabrics with a level of their own share."""
_GID_MASK: Final = "0xffff0000ffff0000:0xffffffff00000000"
_MTU_MIN: Final = 2048
_COMMENT: Final = """
  For `opafmd`, as /etc/opa-fm/opafm.xml. Made from the lab {name} by: opavnic fm config
"""


@dataclass(frozen=True, slots=True)
class VirtualFabric:
    """What a P_Key of the lab gets."""

    pkey: int
    mtu: int
    base_sl: int | None
    """None: that of all else."""

    @property
    def application(self) -> str:
        """The name of its application, which is that of the virtual fabric too."""
        return f"VNIC_{self.pkey:04x}"


def virtual_fabrics(model: LabModel) -> list[VirtualFabric]:
    """Return the virtual fabrics of a lab, by P_Key in the order of the file.

    With more P_Keys than there are service levels, all share one.

    Raises:  LabInputError: the lab has a subnet manager of its own.
    """
    if model.subnet_manager.mode != "external":
        raise LabInputError(
            f"lab {model.name} has a subnet manager of its own; write `subnet_manager: external` to leave its fabric "
            "to a fabric manager"
        )
    mtus: dict[int, int] = {}
    for vesw in model.vesws:
        mtus[vesw.pkey] = max(vesw.mtu, mtus.get(vesw.pkey, _MTU_MIN))
    apart = [pkey for pkey in mtus if pkey not in (DEFAULT_PKEY, PKEY_FULL_MANAGEMENT)]
    levels = {pkey: level for level, pkey in enumerate(apart, 1)} if len(apart) <= OWN_LEVELS else {}
    return [VirtualFabric(pkey, _fabric_mtu(mtu), levels.get(pkey)) for pkey, mtu in mtus.items()]


def _fabric_mtu(mtu: int) -> int:
    return min((size for size in MTU_BYTES.values() if size >= mtu), default=max(MTU_BYTES.values()))


def opafm_xml(model: LabModel) -> str:
    """Return the settings as a document.

    Raises:  LabInputError: the lab has a subnet manager of its own.
    """
    fabrics = virtual_fabrics(model)
    config = Element("Config")
    common = SubElement(config, "Common")
    _add_applications(SubElement(common, "Applications"), fabrics)
    _add_groups(SubElement(common, "DeviceGroups"))
    _add_fabrics(SubElement(common, "VirtualFabrics"), fabrics)
    _fill(SubElement(common, "Shared"), Priority=0, LogLevel=2, SslSecurityEnable=0)
    # 3 pings of 2 seconds: a standby takes over sooner than by default
    manager = SubElement(common, "Sm")
    _fill(manager, Start=1, MasterPingInterval=2, MasterPingMaxFail=3, SweepInterval=300)
    if any(host.kernel is not None and host.kernel.linux_driver is HFI1 for host in model.hosts.values()):
        _add_ipoib(SubElement(manager, "Multicast"))
    _fill(SubElement(common, "Fe"), Start=0)
    manager = SubElement(common, "Pm")
    _fill(manager, Start=1)
    _fill(SubElement(manager, "ShortTermHistory"), Enable=0)
    instance = SubElement(config, "Fm")
    _fill(
        SubElement(instance, "Shared"),
        Start=1,
        Name="fm0",
        Hfi=1,
        Port=1,
        PortGUID="0x0000000000000000",
        SubnetPrefix="0xfe80000000000000",
    )
    for component in ("Sm", "Fe", "Pm"):
        SubElement(instance, component)
    indent(config)
    comment = _COMMENT.format(name=model.name)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<!--{comment}-->\n{tostring(config, "unicode")}\n'


def _fill(parent: Element, **values: object) -> None:
    for name, value in values.items():
        SubElement(parent, name).text = str(value)


def _add_applications(parent: Element, fabrics: list[VirtualFabric]) -> None:
    for name, select in (("SA", "SA"), ("PM", "PM")):
        _fill(SubElement(parent, "Application"), Name=name, Select=select)
    _fill(SubElement(parent, "Application"), Name="PA", ServiceID="0x1100d03c34845555")
    others = SubElement(parent, "Application")
    _fill(others, Name="AllOthers", Select="UnmatchedServiceID")
    SubElement(others, "Select").text = "UnmatchedMGID"
    for fabric in fabrics:
        masked = f"0xff150000{fabric.pkey:04x}0000:0*{_GID_MASK}"
        _fill(SubElement(parent, "Application"), Name=fabric.application, MGIDMasked=masked)


def _add_ipoib(parent: Element) -> None:
    """Let the groups be made that IPoIB joins, but does not make: in the default partition, as opafm.xml has them."""
    group = SubElement(parent, "MulticastGroup")
    _fill(group, Create=1, VirtualFabric="Default")
    for low in ("00000000ffffffff", "0000000000000001", "0000000000000002", "0000000000000016"):
        SubElement(group, "MGID").text = f"0xff12401b{DEFAULT_PKEY:04x}0000:0x{low}"
    for low in ("0000000000000001", "0000000000000002", "0000000000000016"):
        SubElement(group, "MGID").text = f"0xff12601b{DEFAULT_PKEY:04x}0000:0x{low}"
    _fill(group, MTU=2048, Rate="25g", QKey="0x0", TClass="0x0")


def _add_groups(parent: Element) -> None:
    for name, select in (
        ("All", "All"),
        ("AllSWE0s", "SWE0"),
        ("AllMgmtAllowed", "AllMgmtAllowed"),
        ("HFIDirectConnect", "HFIDirectConnect"),
    ):
        _fill(SubElement(parent, "DeviceGroup"), Name=name, Select=select)


def _add_fabrics(parent: Element, fabrics: list[VirtualFabric]) -> None:
    by_pkey = {fabric.pkey: fabric for fabric in fabrics}
    default = SubElement(parent, "VirtualFabric")
    _fill(default, Name="Default", Enable=1, PKey="0x0001", Security=0, QOS=0, Member="All")
    _fill(default, Application="AllOthers", MaxMTU="Unlimited", MaxRate="Unlimited")
    admin = SubElement(parent, "VirtualFabric")
    _fill(admin, Name="Admin", Enable=1, PKey="0x7fff", Security=1, QOS=0)
    for member in ("HFIDirectConnect", "AllMgmtAllowed", "AllSWE0s"):
        SubElement(admin, "Member").text = member
    SubElement(admin, "LimitedMember").text = "All"
    for application in ("SA", "PA", "PM"):
        SubElement(admin, "Application").text = application
    for pkey, shared in ((DEFAULT_PKEY, default), (PKEY_FULL_MANAGEMENT, admin)):
        if pkey in by_pkey:
            SubElement(shared, "Application").text = by_pkey[pkey].application
    own = [f for f in fabrics if f.pkey not in (DEFAULT_PKEY, PKEY_FULL_MANAGEMENT)]
    for fabric in own:
        made = SubElement(parent, "VirtualFabric")
        _fill(made, Name=fabric.application, Enable=1, PKey=f"{fabric.pkey & 0x7FFF:#06x}", Security=1)
        for name, value in _level(fabric, len(own)):
            SubElement(made, name).text = value
        _fill(made, MaxMTU=fabric.mtu, MaxRate="Unlimited", Member="All", Application=fabric.application)


def _level(fabric: VirtualFabric, count: int) -> Iterator[tuple[str, str]]:
    yield "QOS", "0" if fabric.base_sl is None else "1"
    if fabric.base_sl is not None:
        yield "Bandwidth", f"{_BANDWIDTH // count}%"
        yield "BaseSL", str(fabric.base_sl)
