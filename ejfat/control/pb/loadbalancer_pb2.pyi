import datetime

from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IpFamily(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DUAL_STACK: _ClassVar[IpFamily]
    IPV4: _ClassVar[IpFamily]
    IPV6: _ClassVar[IpFamily]

class PortRange(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PORT_RANGE_1: _ClassVar[PortRange]
    PORT_RANGE_2: _ClassVar[PortRange]
    PORT_RANGE_4: _ClassVar[PortRange]
    PORT_RANGE_8: _ClassVar[PortRange]
    PORT_RANGE_16: _ClassVar[PortRange]
    PORT_RANGE_32: _ClassVar[PortRange]
    PORT_RANGE_64: _ClassVar[PortRange]
    PORT_RANGE_128: _ClassVar[PortRange]
    PORT_RANGE_256: _ClassVar[PortRange]
    PORT_RANGE_512: _ClassVar[PortRange]
    PORT_RANGE_1024: _ClassVar[PortRange]
    PORT_RANGE_2048: _ClassVar[PortRange]
    PORT_RANGE_4096: _ClassVar[PortRange]
    PORT_RANGE_8192: _ClassVar[PortRange]
    PORT_RANGE_16384: _ClassVar[PortRange]
DUAL_STACK: IpFamily
IPV4: IpFamily
IPV6: IpFamily
PORT_RANGE_1: PortRange
PORT_RANGE_2: PortRange
PORT_RANGE_4: PortRange
PORT_RANGE_8: PortRange
PORT_RANGE_16: PortRange
PORT_RANGE_32: PortRange
PORT_RANGE_64: PortRange
PORT_RANGE_128: PortRange
PORT_RANGE_256: PortRange
PORT_RANGE_512: PortRange
PORT_RANGE_1024: PortRange
PORT_RANGE_2048: PortRange
PORT_RANGE_4096: PortRange
PORT_RANGE_8192: PortRange
PORT_RANGE_16384: PortRange

class HealthIssue(_message.Message):
    __slots__ = ("type", "severity", "message", "details", "detected_at")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    DETECTED_AT_FIELD_NUMBER: _ClassVar[int]
    type: str
    severity: str
    message: str
    details: _struct_pb2.Struct
    detected_at: _timestamp_pb2.Timestamp
    def __init__(self, type: _Optional[str] = ..., severity: _Optional[str] = ..., message: _Optional[str] = ..., details: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., detected_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SlotRange(_message.Message):
    __slots__ = ("index", "length")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    index: int
    length: int
    def __init__(self, index: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class SessionSlotRanges(_message.Message):
    __slots__ = ("sessionId", "slots")
    SESSIONID_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    sessionId: str
    slots: _containers.RepeatedCompositeFieldContainer[SlotRange]
    def __init__(self, sessionId: _Optional[str] = ..., slots: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ...) -> None: ...

class ReserveLoadBalancerRequest(_message.Message):
    __slots__ = ("name", "until", "senderAddresses", "ipFamily", "strategy")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    SENDERADDRESSES_FIELD_NUMBER: _ClassVar[int]
    IPFAMILY_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    name: str
    until: _timestamp_pb2.Timestamp
    senderAddresses: _containers.RepeatedScalarFieldContainer[str]
    ipFamily: IpFamily
    strategy: str
    def __init__(self, name: _Optional[str] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., senderAddresses: _Optional[_Iterable[str]] = ..., ipFamily: _Optional[_Union[IpFamily, str]] = ..., strategy: _Optional[str] = ...) -> None: ...

class GetLoadBalancerRequest(_message.Message):
    __slots__ = ("lbId",)
    LBID_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    def __init__(self, lbId: _Optional[str] = ...) -> None: ...

class ReserveLoadBalancerReply(_message.Message):
    __slots__ = ("token", "lbId", "syncIpv4Address", "syncUdpPort", "dataIpv4Address", "dataIpv6Address", "fpgaLbId", "syncIpv6Address", "dataMinPort", "dataMaxPort", "strategy", "ejfatUri")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LBID_FIELD_NUMBER: _ClassVar[int]
    SYNCIPV4ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SYNCUDPPORT_FIELD_NUMBER: _ClassVar[int]
    DATAIPV4ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DATAIPV6ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FPGALBID_FIELD_NUMBER: _ClassVar[int]
    SYNCIPV6ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DATAMINPORT_FIELD_NUMBER: _ClassVar[int]
    DATAMAXPORT_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    EJFATURI_FIELD_NUMBER: _ClassVar[int]
    token: str
    lbId: str
    syncIpv4Address: str
    syncUdpPort: int
    dataIpv4Address: str
    dataIpv6Address: str
    fpgaLbId: int
    syncIpv6Address: str
    dataMinPort: int
    dataMaxPort: int
    strategy: str
    ejfatUri: str
    def __init__(self, token: _Optional[str] = ..., lbId: _Optional[str] = ..., syncIpv4Address: _Optional[str] = ..., syncUdpPort: _Optional[int] = ..., dataIpv4Address: _Optional[str] = ..., dataIpv6Address: _Optional[str] = ..., fpgaLbId: _Optional[int] = ..., syncIpv6Address: _Optional[str] = ..., dataMinPort: _Optional[int] = ..., dataMaxPort: _Optional[int] = ..., strategy: _Optional[str] = ..., ejfatUri: _Optional[str] = ...) -> None: ...

class LoadBalancerStatusRequest(_message.Message):
    __slots__ = ("lbId",)
    LBID_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    def __init__(self, lbId: _Optional[str] = ...) -> None: ...

class WorkerStatus(_message.Message):
    __slots__ = ("name", "fillPercent", "controlSignal", "slotsAssigned", "lastUpdated", "ipAddress", "udpPort", "portRange", "minFactor", "maxFactor", "keepLbHeader", "totalEventsRecv", "totalEventsReassembled", "totalEventsReassemblyErr", "totalEventsDequeued", "totalEventEnqueueErr", "totalBytesRecv", "totalPacketsRecv", "slots", "slotDemands", "healthIssues", "sessionId")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FILLPERCENT_FIELD_NUMBER: _ClassVar[int]
    CONTROLSIGNAL_FIELD_NUMBER: _ClassVar[int]
    SLOTSASSIGNED_FIELD_NUMBER: _ClassVar[int]
    LASTUPDATED_FIELD_NUMBER: _ClassVar[int]
    IPADDRESS_FIELD_NUMBER: _ClassVar[int]
    UDPPORT_FIELD_NUMBER: _ClassVar[int]
    PORTRANGE_FIELD_NUMBER: _ClassVar[int]
    MINFACTOR_FIELD_NUMBER: _ClassVar[int]
    MAXFACTOR_FIELD_NUMBER: _ClassVar[int]
    KEEPLBHEADER_FIELD_NUMBER: _ClassVar[int]
    TOTALEVENTSRECV_FIELD_NUMBER: _ClassVar[int]
    TOTALEVENTSREASSEMBLED_FIELD_NUMBER: _ClassVar[int]
    TOTALEVENTSREASSEMBLYERR_FIELD_NUMBER: _ClassVar[int]
    TOTALEVENTSDEQUEUED_FIELD_NUMBER: _ClassVar[int]
    TOTALEVENTENQUEUEERR_FIELD_NUMBER: _ClassVar[int]
    TOTALBYTESRECV_FIELD_NUMBER: _ClassVar[int]
    TOTALPACKETSRECV_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SLOTDEMANDS_FIELD_NUMBER: _ClassVar[int]
    HEALTHISSUES_FIELD_NUMBER: _ClassVar[int]
    SESSIONID_FIELD_NUMBER: _ClassVar[int]
    name: str
    fillPercent: float
    controlSignal: float
    slotsAssigned: int
    lastUpdated: _timestamp_pb2.Timestamp
    ipAddress: str
    udpPort: int
    portRange: PortRange
    minFactor: float
    maxFactor: float
    keepLbHeader: bool
    totalEventsRecv: int
    totalEventsReassembled: int
    totalEventsReassemblyErr: int
    totalEventsDequeued: int
    totalEventEnqueueErr: int
    totalBytesRecv: int
    totalPacketsRecv: int
    slots: _containers.RepeatedCompositeFieldContainer[SlotRange]
    slotDemands: _containers.RepeatedCompositeFieldContainer[SlotRange]
    healthIssues: _containers.RepeatedCompositeFieldContainer[HealthIssue]
    sessionId: int
    def __init__(self, name: _Optional[str] = ..., fillPercent: _Optional[float] = ..., controlSignal: _Optional[float] = ..., slotsAssigned: _Optional[int] = ..., lastUpdated: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ipAddress: _Optional[str] = ..., udpPort: _Optional[int] = ..., portRange: _Optional[_Union[PortRange, str]] = ..., minFactor: _Optional[float] = ..., maxFactor: _Optional[float] = ..., keepLbHeader: _Optional[bool] = ..., totalEventsRecv: _Optional[int] = ..., totalEventsReassembled: _Optional[int] = ..., totalEventsReassemblyErr: _Optional[int] = ..., totalEventsDequeued: _Optional[int] = ..., totalEventEnqueueErr: _Optional[int] = ..., totalBytesRecv: _Optional[int] = ..., totalPacketsRecv: _Optional[int] = ..., slots: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ..., slotDemands: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ..., healthIssues: _Optional[_Iterable[_Union[HealthIssue, _Mapping]]] = ..., sessionId: _Optional[int] = ...) -> None: ...

class LoadBalancerStatusReply(_message.Message):
    __slots__ = ("timestamp", "currentEpoch", "currentPredictedEventNumber", "workers", "senderAddresses", "expiresAt", "slotResolution", "healthIssues")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    CURRENTEPOCH_FIELD_NUMBER: _ClassVar[int]
    CURRENTPREDICTEDEVENTNUMBER_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    SENDERADDRESSES_FIELD_NUMBER: _ClassVar[int]
    EXPIRESAT_FIELD_NUMBER: _ClassVar[int]
    SLOTRESOLUTION_FIELD_NUMBER: _ClassVar[int]
    HEALTHISSUES_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    currentEpoch: int
    currentPredictedEventNumber: int
    workers: _containers.RepeatedCompositeFieldContainer[WorkerStatus]
    senderAddresses: _containers.RepeatedScalarFieldContainer[str]
    expiresAt: _timestamp_pb2.Timestamp
    slotResolution: int
    healthIssues: _containers.RepeatedCompositeFieldContainer[HealthIssue]
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., currentEpoch: _Optional[int] = ..., currentPredictedEventNumber: _Optional[int] = ..., workers: _Optional[_Iterable[_Union[WorkerStatus, _Mapping]]] = ..., senderAddresses: _Optional[_Iterable[str]] = ..., expiresAt: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., slotResolution: _Optional[int] = ..., healthIssues: _Optional[_Iterable[_Union[HealthIssue, _Mapping]]] = ...) -> None: ...

class AddSendersRequest(_message.Message):
    __slots__ = ("lbId", "senderAddresses")
    LBID_FIELD_NUMBER: _ClassVar[int]
    SENDERADDRESSES_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    senderAddresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, lbId: _Optional[str] = ..., senderAddresses: _Optional[_Iterable[str]] = ...) -> None: ...

class AddSendersReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveSendersRequest(_message.Message):
    __slots__ = ("lbId", "senderAddresses")
    LBID_FIELD_NUMBER: _ClassVar[int]
    SENDERADDRESSES_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    senderAddresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, lbId: _Optional[str] = ..., senderAddresses: _Optional[_Iterable[str]] = ...) -> None: ...

class RemoveSendersReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FreeLoadBalancerRequest(_message.Message):
    __slots__ = ("lbId",)
    LBID_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    def __init__(self, lbId: _Optional[str] = ...) -> None: ...

class FreeLoadBalancerReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResetLoadBalancerRequest(_message.Message):
    __slots__ = ("lbId", "sync", "epochs", "senders", "workers")
    LBID_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    SENDERS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    sync: bool
    epochs: bool
    senders: bool
    workers: bool
    def __init__(self, lbId: _Optional[str] = ..., sync: _Optional[bool] = ..., epochs: _Optional[bool] = ..., senders: _Optional[bool] = ..., workers: _Optional[bool] = ...) -> None: ...

class ResetLoadBalancerReply(_message.Message):
    __slots__ = ("sync", "epochs", "senders", "workers")
    SYNC_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    SENDERS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    sync: bool
    epochs: bool
    senders: bool
    workers: bool
    def __init__(self, sync: _Optional[bool] = ..., epochs: _Optional[bool] = ..., senders: _Optional[bool] = ..., workers: _Optional[bool] = ...) -> None: ...

class ExtendReservationRequest(_message.Message):
    __slots__ = ("lbId", "until")
    LBID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    until: _timestamp_pb2.Timestamp
    def __init__(self, lbId: _Optional[str] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ExtendReservationReply(_message.Message):
    __slots__ = ("until",)
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    until: _timestamp_pb2.Timestamp
    def __init__(self, until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("lbId", "name", "weight", "ipAddress", "udpPort", "portRange", "minFactor", "maxFactor", "keepLbHeader", "slotDemands")
    LBID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    IPADDRESS_FIELD_NUMBER: _ClassVar[int]
    UDPPORT_FIELD_NUMBER: _ClassVar[int]
    PORTRANGE_FIELD_NUMBER: _ClassVar[int]
    MINFACTOR_FIELD_NUMBER: _ClassVar[int]
    MAXFACTOR_FIELD_NUMBER: _ClassVar[int]
    KEEPLBHEADER_FIELD_NUMBER: _ClassVar[int]
    SLOTDEMANDS_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    name: str
    weight: float
    ipAddress: str
    udpPort: int
    portRange: PortRange
    minFactor: float
    maxFactor: float
    keepLbHeader: bool
    slotDemands: _containers.RepeatedCompositeFieldContainer[SlotRange]
    def __init__(self, lbId: _Optional[str] = ..., name: _Optional[str] = ..., weight: _Optional[float] = ..., ipAddress: _Optional[str] = ..., udpPort: _Optional[int] = ..., portRange: _Optional[_Union[PortRange, str]] = ..., minFactor: _Optional[float] = ..., maxFactor: _Optional[float] = ..., keepLbHeader: _Optional[bool] = ..., slotDemands: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ...) -> None: ...

class RegisterReply(_message.Message):
    __slots__ = ("token", "sessionId")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SESSIONID_FIELD_NUMBER: _ClassVar[int]
    token: str
    sessionId: str
    def __init__(self, token: _Optional[str] = ..., sessionId: _Optional[str] = ...) -> None: ...

class SetSlotDemandsRequest(_message.Message):
    __slots__ = ("lbId", "slotConstraints")
    LBID_FIELD_NUMBER: _ClassVar[int]
    SLOTCONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    slotConstraints: _containers.RepeatedCompositeFieldContainer[SessionSlotRanges]
    def __init__(self, lbId: _Optional[str] = ..., slotConstraints: _Optional[_Iterable[_Union[SessionSlotRanges, _Mapping]]] = ...) -> None: ...

class SetSlotDemandsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeregisterRequest(_message.Message):
    __slots__ = ("lbId", "sessionId")
    LBID_FIELD_NUMBER: _ClassVar[int]
    SESSIONID_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    sessionId: str
    def __init__(self, lbId: _Optional[str] = ..., sessionId: _Optional[str] = ...) -> None: ...

class DeregisterReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SendStateRequest(_message.Message):
    __slots__ = ("sessionId", "lbId", "timestamp", "fillPercent", "controlSignal", "isReady", "totalEventsRecv", "totalEventsReassembled", "totalEventsReassemblyErr", "totalEventsDequeued", "totalEventEnqueueErr", "totalBytesRecv", "totalPacketsRecv")
    SESSIONID_FIELD_NUMBER: _ClassVar[int]
    LBID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    FILLPERCENT_FIELD_NUMBER: _ClassVar[int]
    CONTROLSIGNAL_FIELD_NUMBER: _ClassVar[int]
    ISREADY_FIELD_NUMBER: _ClassVar[int]
    TOTALEVENTSRECV_FIELD_NUMBER: _ClassVar[int]
    TOTALEVENTSREASSEMBLED_FIELD_NUMBER: _ClassVar[int]
    TOTALEVENTSREASSEMBLYERR_FIELD_NUMBER: _ClassVar[int]
    TOTALEVENTSDEQUEUED_FIELD_NUMBER: _ClassVar[int]
    TOTALEVENTENQUEUEERR_FIELD_NUMBER: _ClassVar[int]
    TOTALBYTESRECV_FIELD_NUMBER: _ClassVar[int]
    TOTALPACKETSRECV_FIELD_NUMBER: _ClassVar[int]
    sessionId: str
    lbId: str
    timestamp: _timestamp_pb2.Timestamp
    fillPercent: float
    controlSignal: float
    isReady: bool
    totalEventsRecv: int
    totalEventsReassembled: int
    totalEventsReassemblyErr: int
    totalEventsDequeued: int
    totalEventEnqueueErr: int
    totalBytesRecv: int
    totalPacketsRecv: int
    def __init__(self, sessionId: _Optional[str] = ..., lbId: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., fillPercent: _Optional[float] = ..., controlSignal: _Optional[float] = ..., isReady: _Optional[bool] = ..., totalEventsRecv: _Optional[int] = ..., totalEventsReassembled: _Optional[int] = ..., totalEventsReassemblyErr: _Optional[int] = ..., totalEventsDequeued: _Optional[int] = ..., totalEventEnqueueErr: _Optional[int] = ..., totalBytesRecv: _Optional[int] = ..., totalPacketsRecv: _Optional[int] = ...) -> None: ...

class SendStateReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class VersionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class VersionReply(_message.Message):
    __slots__ = ("commit", "build", "compatTag")
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    COMPATTAG_FIELD_NUMBER: _ClassVar[int]
    commit: str
    build: str
    compatTag: str
    def __init__(self, commit: _Optional[str] = ..., build: _Optional[str] = ..., compatTag: _Optional[str] = ...) -> None: ...

class OverviewRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Overview(_message.Message):
    __slots__ = ("name", "reservation", "status")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    name: str
    reservation: ReserveLoadBalancerReply
    status: LoadBalancerStatusReply
    def __init__(self, name: _Optional[str] = ..., reservation: _Optional[_Union[ReserveLoadBalancerReply, _Mapping]] = ..., status: _Optional[_Union[LoadBalancerStatusReply, _Mapping]] = ...) -> None: ...

class OverviewReply(_message.Message):
    __slots__ = ("loadBalancers",)
    LOADBALANCERS_FIELD_NUMBER: _ClassVar[int]
    loadBalancers: _containers.RepeatedCompositeFieldContainer[Overview]
    def __init__(self, loadBalancers: _Optional[_Iterable[_Union[Overview, _Mapping]]] = ...) -> None: ...

class TimeseriesRequest(_message.Message):
    __slots__ = ("seriesSelector", "since")
    SERIESSELECTOR_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    seriesSelector: _containers.RepeatedScalarFieldContainer[str]
    since: _timestamp_pb2.Timestamp
    def __init__(self, seriesSelector: _Optional[_Iterable[str]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FloatSample(_message.Message):
    __slots__ = ("timestamp", "value", "meta")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    timestamp: int
    value: float
    meta: _struct_pb2.Struct
    def __init__(self, timestamp: _Optional[int] = ..., value: _Optional[float] = ..., meta: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class FloatTimeseries(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: _containers.RepeatedCompositeFieldContainer[FloatSample]
    def __init__(self, data: _Optional[_Iterable[_Union[FloatSample, _Mapping]]] = ...) -> None: ...

class IntegerSample(_message.Message):
    __slots__ = ("timestamp", "value", "meta")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    timestamp: int
    value: int
    meta: _struct_pb2.Struct
    def __init__(self, timestamp: _Optional[int] = ..., value: _Optional[int] = ..., meta: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class IntegerTimeseries(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: _containers.RepeatedCompositeFieldContainer[IntegerSample]
    def __init__(self, data: _Optional[_Iterable[_Union[IntegerSample, _Mapping]]] = ...) -> None: ...

class Timeseries(_message.Message):
    __slots__ = ("name", "unit", "integer_samples", "float_samples")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    INTEGER_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    FLOAT_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    name: str
    unit: str
    integer_samples: IntegerTimeseries
    float_samples: FloatTimeseries
    def __init__(self, name: _Optional[str] = ..., unit: _Optional[str] = ..., integer_samples: _Optional[_Union[IntegerTimeseries, _Mapping]] = ..., float_samples: _Optional[_Union[FloatTimeseries, _Mapping]] = ...) -> None: ...

class TimeseriesResponse(_message.Message):
    __slots__ = ("timeseries", "since")
    TIMESERIES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    timeseries: _containers.RepeatedCompositeFieldContainer[Timeseries]
    since: _timestamp_pb2.Timestamp
    def __init__(self, timeseries: _Optional[_Iterable[_Union[Timeseries, _Mapping]]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TokenPermission(_message.Message):
    __slots__ = ("resourceType", "resourceId", "permission")
    class ResourceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ALL: _ClassVar[TokenPermission.ResourceType]
        LOAD_BALANCER: _ClassVar[TokenPermission.ResourceType]
        RESERVATION: _ClassVar[TokenPermission.ResourceType]
        SESSION: _ClassVar[TokenPermission.ResourceType]
    ALL: TokenPermission.ResourceType
    LOAD_BALANCER: TokenPermission.ResourceType
    RESERVATION: TokenPermission.ResourceType
    SESSION: TokenPermission.ResourceType
    class PermissionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        READ_ONLY: _ClassVar[TokenPermission.PermissionType]
        REGISTER: _ClassVar[TokenPermission.PermissionType]
        RESERVE: _ClassVar[TokenPermission.PermissionType]
        UPDATE: _ClassVar[TokenPermission.PermissionType]
    READ_ONLY: TokenPermission.PermissionType
    REGISTER: TokenPermission.PermissionType
    RESERVE: TokenPermission.PermissionType
    UPDATE: TokenPermission.PermissionType
    RESOURCETYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCEID_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    resourceType: TokenPermission.ResourceType
    resourceId: str
    permission: TokenPermission.PermissionType
    def __init__(self, resourceType: _Optional[_Union[TokenPermission.ResourceType, str]] = ..., resourceId: _Optional[str] = ..., permission: _Optional[_Union[TokenPermission.PermissionType, str]] = ...) -> None: ...

class CreateTokenRequest(_message.Message):
    __slots__ = ("name", "permissions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    permissions: _containers.RepeatedCompositeFieldContainer[TokenPermission]
    def __init__(self, name: _Optional[str] = ..., permissions: _Optional[_Iterable[_Union[TokenPermission, _Mapping]]] = ...) -> None: ...

class CreateTokenReply(_message.Message):
    __slots__ = ("token", "ejfatUri")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EJFATURI_FIELD_NUMBER: _ClassVar[int]
    token: str
    ejfatUri: str
    def __init__(self, token: _Optional[str] = ..., ejfatUri: _Optional[str] = ...) -> None: ...

class TokenSelector(_message.Message):
    __slots__ = ("id", "token")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: int
    token: str
    def __init__(self, id: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class TokenDetails(_message.Message):
    __slots__ = ("name", "permissions", "created_at", "id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    permissions: _containers.RepeatedCompositeFieldContainer[TokenPermission]
    created_at: str
    id: int
    def __init__(self, name: _Optional[str] = ..., permissions: _Optional[_Iterable[_Union[TokenPermission, _Mapping]]] = ..., created_at: _Optional[str] = ..., id: _Optional[int] = ...) -> None: ...

class ListTokenPermissionsRequest(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: TokenSelector
    def __init__(self, target: _Optional[_Union[TokenSelector, _Mapping]] = ...) -> None: ...

class ListTokenPermissionsReply(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: TokenDetails
    def __init__(self, token: _Optional[_Union[TokenDetails, _Mapping]] = ...) -> None: ...

class ListChildTokensRequest(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: TokenSelector
    def __init__(self, target: _Optional[_Union[TokenSelector, _Mapping]] = ...) -> None: ...

class ListChildTokensReply(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[TokenDetails]
    def __init__(self, tokens: _Optional[_Iterable[_Union[TokenDetails, _Mapping]]] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: TokenSelector
    def __init__(self, target: _Optional[_Union[TokenSelector, _Mapping]] = ...) -> None: ...

class RevokeTokenReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ChainLoadBalancerRequest(_message.Message):
    __slots__ = ("lbId", "ejfatUri", "ipFamily", "weight", "minFactor", "maxFactor", "slotDemands")
    LBID_FIELD_NUMBER: _ClassVar[int]
    EJFATURI_FIELD_NUMBER: _ClassVar[int]
    IPFAMILY_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    MINFACTOR_FIELD_NUMBER: _ClassVar[int]
    MAXFACTOR_FIELD_NUMBER: _ClassVar[int]
    SLOTDEMANDS_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    ejfatUri: str
    ipFamily: IpFamily
    weight: float
    minFactor: float
    maxFactor: float
    slotDemands: _containers.RepeatedCompositeFieldContainer[SlotRange]
    def __init__(self, lbId: _Optional[str] = ..., ejfatUri: _Optional[str] = ..., ipFamily: _Optional[_Union[IpFamily, str]] = ..., weight: _Optional[float] = ..., minFactor: _Optional[float] = ..., maxFactor: _Optional[float] = ..., slotDemands: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ...) -> None: ...

class ChainLoadBalancerReply(_message.Message):
    __slots__ = ("chainId",)
    CHAINID_FIELD_NUMBER: _ClassVar[int]
    chainId: str
    def __init__(self, chainId: _Optional[str] = ...) -> None: ...

class UnchainLoadBalancerRequest(_message.Message):
    __slots__ = ("lbId", "chainId")
    LBID_FIELD_NUMBER: _ClassVar[int]
    CHAINID_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    chainId: str
    def __init__(self, lbId: _Optional[str] = ..., chainId: _Optional[str] = ...) -> None: ...

class UnchainLoadBalancerReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetChainGraphRequest(_message.Message):
    __slots__ = ("lbId", "visited")
    LBID_FIELD_NUMBER: _ClassVar[int]
    VISITED_FIELD_NUMBER: _ClassVar[int]
    lbId: str
    visited: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, lbId: _Optional[str] = ..., visited: _Optional[_Iterable[str]] = ...) -> None: ...

class ChainGraphEdge(_message.Message):
    __slots__ = ("upstreamLbId", "upstreamDataIpv4", "upstreamDataIpv6", "downstreamLbId", "downstreamDataIpv4", "downstreamDataIpv6", "chainId")
    UPSTREAMLBID_FIELD_NUMBER: _ClassVar[int]
    UPSTREAMDATAIPV4_FIELD_NUMBER: _ClassVar[int]
    UPSTREAMDATAIPV6_FIELD_NUMBER: _ClassVar[int]
    DOWNSTREAMLBID_FIELD_NUMBER: _ClassVar[int]
    DOWNSTREAMDATAIPV4_FIELD_NUMBER: _ClassVar[int]
    DOWNSTREAMDATAIPV6_FIELD_NUMBER: _ClassVar[int]
    CHAINID_FIELD_NUMBER: _ClassVar[int]
    upstreamLbId: str
    upstreamDataIpv4: str
    upstreamDataIpv6: str
    downstreamLbId: str
    downstreamDataIpv4: str
    downstreamDataIpv6: str
    chainId: str
    def __init__(self, upstreamLbId: _Optional[str] = ..., upstreamDataIpv4: _Optional[str] = ..., upstreamDataIpv6: _Optional[str] = ..., downstreamLbId: _Optional[str] = ..., downstreamDataIpv4: _Optional[str] = ..., downstreamDataIpv6: _Optional[str] = ..., chainId: _Optional[str] = ...) -> None: ...

class GetChainGraphReply(_message.Message):
    __slots__ = ("edges", "cycleDetected")
    EDGES_FIELD_NUMBER: _ClassVar[int]
    CYCLEDETECTED_FIELD_NUMBER: _ClassVar[int]
    edges: _containers.RepeatedCompositeFieldContainer[ChainGraphEdge]
    cycleDetected: bool
    def __init__(self, edges: _Optional[_Iterable[_Union[ChainGraphEdge, _Mapping]]] = ..., cycleDetected: _Optional[bool] = ...) -> None: ...
