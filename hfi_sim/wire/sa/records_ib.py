"""The records of subnet administration in InfiniBand's form: class version 2. Big-endian.

Omni-Path keeps them for IPoIB, for librdmacm, and for the queries of its own tools about paths, services and groups.

Source: the InfiniBand architecture, 15.2.5; opa-ff, ib_sa_records.h and ib_mad.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hfi_sim.wire.field import FLAG, HEX, Field
from hfi_sim.wire.header import declared
from hfi_sim.wire.sa.record import SaRecord, gid, inside, reserved
from hfi_sim.wire.sa.records import LEASE_FOREVER
from hfi_sim.wire.sma import node


def _lid(meaning: str) -> Field:
    return Field(16, meaning, HEX)


@declared("IbPathRecord", "PathRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class IbPathRecord(SaRecord):
    """A path between two ports; the same in both class versions."""

    IB: ClassVar = True
    COMPONENTS: ClassVar = (
        "service_id", "", "dgid", "sgid", "dlid", "slid", "raw", "", "flow_label", "hop_limit", "traffic_class",
        "reversible", "number_of_paths", "pkey", "qos_class", "sl", "mtu_selector", "mtu", "rate_selector", "rate",
        "life_selector", "life", "preference",
    )  # fmt: skip

    service_id: Annotated[int, Field(64, "number of a service", HEX)] = 0
    dgid: Annotated[bytes, gid("GID of the destination")] = bytes(16)
    sgid: Annotated[bytes, gid("GID of the source")] = bytes(16)
    dlid: Annotated[int, _lid("LID of the destination")] = 0
    slid: Annotated[int, _lid("LID of the source")] = 0
    raw: Annotated[bool, Field(1, "raw packets", FLAG)] = False
    reserved_44: Annotated[int, reserved(3)] = 0
    flow_label: Annotated[int, Field(20, "flow label", HEX)] = 0
    hop_limit: Annotated[int, Field(8, "hop limit")] = 0
    traffic_class: Annotated[int, Field(8, "traffic class", HEX)] = 0
    reversible: Annotated[bool, Field(1, "the way back is the same", FLAG)] = False
    number_of_paths: Annotated[int, Field(7, "paths that are wanted at most")] = 0
    pkey: Annotated[int, Field(16, "P_Key", HEX)] = 0
    qos_class: Annotated[int, Field(12, "class of service", HEX)] = 0
    sl: Annotated[int, Field(4, "SL")] = 0
    mtu_selector: Annotated[int, Field(2, "how `mtu` is meant")] = 0
    mtu: Annotated[int, Field(6, "MTU, as a code")] = 0
    rate_selector: Annotated[int, Field(2, "how `rate` is meant")] = 0
    rate: Annotated[int, Field(6, "rate, as a code")] = 0
    life_selector: Annotated[int, Field(2, "how `life` is meant")] = 0
    life: Annotated[int, Field(6, "lifetime of a packet, 4.096 us times 2 to this")] = 0
    preference: Annotated[int, Field(8, "0: preferred")] = 0
    reserved_58: Annotated[bytes, inside(6, "0")] = bytes(6)


@declared("IbNodeRecord", "NodeRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class IbNodeRecord(SaRecord):
    """One port of an HFI, or one switch."""

    IB: ClassVar = True
    COMPONENTS: ClassVar = (
        "lid", "", "base_version", "class_version", "node_type", "num_ports", "system_image_guid", "node_guid",
        "port_guid", "partition_cap", "device_id", "revision", "local_port_num", "vendor_id", "node_description",
    )  # fmt: skip

    lid: Annotated[int, _lid("LID of the port, or of port 0 of the switch")] = 0
    reserved_2: Annotated[int, reserved(16)] = 0
    base_version: node.BaseVersion = 0
    class_version: node.ClassVersion = 0
    node_type: node.TypeOfNode = 0
    num_ports: node.NumPorts = 0
    system_image_guid: node.SystemImageGuid = 0
    node_guid: node.NodeGuid = 0
    port_guid: node.PortGuid = 0
    partition_cap: node.PartitionCap = 0
    device_id: node.DeviceId = 0
    revision: node.Revision = 0
    local_port_num: node.LocalPortNum = 0
    vendor_id: node.VendorId = 0
    node_description: Annotated[bytes, inside(64, "its name, filled up with zeros")] = bytes(64)


@declared("IbMCMemberRecord", "MCMemberRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class IbMcMemberRecord(SaRecord):
    """A port in a multicast group, or in a request for that."""

    IB: ClassVar = True
    COMPONENTS: ClassVar = (
        "mgid", "port_gid", "q_key", "mlid", "mtu_selector", "mtu", "traffic_class", "pkey", "rate_selector", "rate",
        "life_selector", "life", "sl", "flow_label", "hop_limit", "scope", "join_state", "proxy_join",
    )  # fmt: skip

    mgid: Annotated[bytes, gid("GID of the group; 0 in a join: make one")] = bytes(16)
    port_gid: Annotated[bytes, gid("GID of the member")] = bytes(16)
    q_key: Annotated[int, Field(32, "Q_Key of the group", HEX)] = 0
    mlid: Annotated[int, _lid("LID of the group, in the 16-bit form that begins at 0xc000")] = 0
    mtu_selector: Annotated[int, Field(2, "how `mtu` is meant")] = 0
    mtu: Annotated[int, Field(6, "MTU of the group, as a code")] = 0
    traffic_class: Annotated[int, Field(8, "traffic class", HEX)] = 0
    pkey: Annotated[int, Field(16, "P_Key of the group", HEX)] = 0
    rate_selector: Annotated[int, Field(2, "how `rate` is meant")] = 0
    rate: Annotated[int, Field(6, "rate of the group, as a code")] = 0
    life_selector: Annotated[int, Field(2, "how `life` is meant")] = 0
    life: Annotated[int, Field(6, "lifetime of a packet, 4.096 us times 2 to this")] = 0
    sl: Annotated[int, Field(4, "SL of the group")] = 0
    flow_label: Annotated[int, Field(20, "flow label", HEX)] = 0
    hop_limit: Annotated[int, Field(8, "hop limit")] = 0
    scope: Annotated[int, Field(4, "scope of the GID")] = 0
    join_state: Annotated[
        int, Field(4, "1 full member, 2 non-member, 4 send-only non-member, 8 send-only full member", HEX)
    ] = 0
    proxy_join: Annotated[bool, Field(1, "joined on behalf of another port", FLAG)] = False
    reserved_49: Annotated[int, reserved(23)] = 0


@declared("IbServiceRecord", "ServiceRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class IbServiceRecord(SaRecord):
    """A service that a port offers."""

    IB: ClassVar = True
    COMPONENTS: ClassVar = ("service_id", "gid", "pkey", "", "lease", "key", "name")

    service_id: Annotated[int, Field(64, "number of the service", HEX)] = 0
    gid: Annotated[bytes, gid("GID of the port that offers it")] = bytes(16)
    pkey: Annotated[int, Field(16, "partition that it is offered in", HEX)] = 0
    reserved_26: Annotated[int, reserved(16)] = 0
    lease: Annotated[int, Field(32, "seconds that the record still holds; 0xffffffff: until deleted")] = (
        LEASE_FOREVER
    )
    key: Annotated[bytes, inside(16, "key of the service")] = bytes(16)
    name: Annotated[bytes, inside(64, "name, filled up with zeros")] = bytes(64)
    data: Annotated[
        bytes, inside(64, "16 bytes, 8 words of 16, 4 of 32 and 2 of 64 bits: the service's own")
    ] = bytes(64)


@declared("IbInformInfo", "InformInfo", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class IbInformInfo(SaRecord):
    """A subscription to notices."""

    IB: ClassVar = True

    gid: Annotated[bytes, gid("notices about this GID only; 0: about any")] = bytes(16)
    lid_begin: Annotated[int, _lid("notices of LIDs from this one; 0xffff: of all")] = 0xFFFF
    lid_end: Annotated[int, _lid("the last LID")] = 0
    reserved_20: Annotated[int, reserved(16)] = 0
    is_generic: Annotated[int, Field(8, "1: generic notices, 0: a vendor's")] = 1
    subscribe: Annotated[int, Field(8, "1: subscribe, 0: end that")] = 1
    type: Annotated[int, Field(16, "type of notice; 0xffff: all", HEX)] = 0xFFFF
    trap: Annotated[int, Field(16, "number of the trap; 0xffff: all")] = 0xFFFF
    qpn: Annotated[int, Field(24, "queue pair of the subscriber; 1: its QP1", HEX)] = 1
    reserved_31: Annotated[int, reserved(3)] = 0
    response_time: Annotated[int, Field(5, "how long a ReportResp may take")] = 0
    reserved_32: Annotated[int, reserved(8)] = 0
    producer: Annotated[int, Field(24, "type of the node; 0xffffff: any", HEX)] = 0xFFFFFF


@declared("IbInformInfoRecord", "InformInfoRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class IbInformInfoRecord(SaRecord):
    """A subscription, as the subnet administration holds it."""

    IB: ClassVar = True
    COMPONENTS: ClassVar = ("gid", "number")

    gid: Annotated[bytes, gid("GID of the subscriber")] = bytes(16)
    number: Annotated[int, Field(16, "which of its subscriptions")] = 0
    reserved_18: Annotated[bytes, inside(6, "0")] = bytes(6)
    inform_info: Annotated[bytes, inside(36, "InformInfo")] = bytes(36)


@declared("IbNotice", "Notice", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class IbNotice(SaRecord):
    """What has happened: in a Report to a subscriber."""

    IB: ClassVar = True

    is_generic: Annotated[bool, Field(1, "a generic notice", FLAG)] = True
    type: Annotated[int, Field(7, "0 fatal, 1 urgent, 2 security, 3 subnet management, 4 information")]
    producer: Annotated[int, Field(24, "type of the node: 1 HFI, 2 switch, 4 subnet manager")]
    trap: Annotated[int, Field(16, "number of the trap")]
    issuer_lid: Annotated[int, _lid("LID of the issuer")] = 0
    toggle_count: Annotated[int, Field(16, "0")] = 0
    data: Annotated[bytes, inside(54, "what the trap is about: six bytes of 0 and a GID, or a LID")] = bytes(
        54
    )
    issuer_gid: Annotated[bytes, gid("GID of the issuer")] = bytes(16)


@declared("IbClassPortInfo", "ClassPortInfo", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class IbClassPortInfo(SaRecord):
    """What the subnet administration can do; it redirects no client, and sends no traps."""

    IB: ClassVar = True

    base_version: Annotated[int, Field(8, "1", HEX)] = 1
    class_version: Annotated[int, Field(8, "2", HEX)] = 2
    capabilities: Annotated[int, Field(16, "bit 2: there are more; bit 9: multicast", HEX)] = 0
    capabilities2: Annotated[int, Field(27, "more of them", HEX)] = 0
    response_time: Annotated[int, Field(5, "4.096 us times 2 to this")] = 0
    reserved_8: Annotated[bytes, inside(64, "redirection and sink of traps: 0")] = bytes(64)
