import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EC_UNKNOWN: _ClassVar[ErrorCode]
    EC_OK: _ClassVar[ErrorCode]
    EC_INVALID_DEVICE_ID: _ClassVar[ErrorCode]
    EC_INVALID_HOST_ID: _ClassVar[ErrorCode]
    EC_MISSING_HOST_CONFIG: _ClassVar[ErrorCode]
    EC_INVALID_PORT_ID: _ClassVar[ErrorCode]
    EC_MISSING_PORT_CONFIG: _ClassVar[ErrorCode]
    EC_MISSING_SWITCH_CONFIG: _ClassVar[ErrorCode]

class SwitchInterface(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SW_INTF_UNKNOWN: _ClassVar[SwitchInterface]
    SW_INTF_PHYSICAL: _ClassVar[SwitchInterface]
    SW_INTF_TEST: _ClassVar[SwitchInterface]

class SwitchDestination(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SW_DEST_UNKNOWN: _ClassVar[SwitchDestination]
    SW_DEST_BYPASS: _ClassVar[SwitchDestination]
    SW_DEST_DROP: _ClassVar[SwitchDestination]
    SW_DEST_APP: _ClassVar[SwitchDestination]

class SwitchBypassMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SW_BYPASS_UNKNOWN: _ClassVar[SwitchBypassMode]
    SW_BYPASS_STRAIGHT: _ClassVar[SwitchBypassMode]
    SW_BYPASS_SWAP: _ClassVar[SwitchBypassMode]

class HostFunctionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOST_FUNC_UNKNOWN: _ClassVar[HostFunctionType]
    HOST_FUNC_PHYSICAL: _ClassVar[HostFunctionType]
    HOST_FUNC_VIRTUAL: _ClassVar[HostFunctionType]

class PortState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PORT_STATE_UNKNOWN: _ClassVar[PortState]
    PORT_STATE_DISABLE: _ClassVar[PortState]
    PORT_STATE_ENABLE: _ClassVar[PortState]

class PortFec(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PORT_FEC_UNKNOWN: _ClassVar[PortFec]
    PORT_FEC_NONE: _ClassVar[PortFec]
    PORT_FEC_REED_SOLOMON: _ClassVar[PortFec]

class PortLoopback(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PORT_LOOPBACK_UNKNOWN: _ClassVar[PortLoopback]
    PORT_LOOPBACK_NONE: _ClassVar[PortLoopback]
    PORT_LOOPBACK_NEAR_END_PMA: _ClassVar[PortLoopback]
EC_UNKNOWN: ErrorCode
EC_OK: ErrorCode
EC_INVALID_DEVICE_ID: ErrorCode
EC_INVALID_HOST_ID: ErrorCode
EC_MISSING_HOST_CONFIG: ErrorCode
EC_INVALID_PORT_ID: ErrorCode
EC_MISSING_PORT_CONFIG: ErrorCode
EC_MISSING_SWITCH_CONFIG: ErrorCode
SW_INTF_UNKNOWN: SwitchInterface
SW_INTF_PHYSICAL: SwitchInterface
SW_INTF_TEST: SwitchInterface
SW_DEST_UNKNOWN: SwitchDestination
SW_DEST_BYPASS: SwitchDestination
SW_DEST_DROP: SwitchDestination
SW_DEST_APP: SwitchDestination
SW_BYPASS_UNKNOWN: SwitchBypassMode
SW_BYPASS_STRAIGHT: SwitchBypassMode
SW_BYPASS_SWAP: SwitchBypassMode
HOST_FUNC_UNKNOWN: HostFunctionType
HOST_FUNC_PHYSICAL: HostFunctionType
HOST_FUNC_VIRTUAL: HostFunctionType
PORT_STATE_UNKNOWN: PortState
PORT_STATE_DISABLE: PortState
PORT_STATE_ENABLE: PortState
PORT_FEC_UNKNOWN: PortFec
PORT_FEC_NONE: PortFec
PORT_FEC_REED_SOLOMON: PortFec
PORT_LOOPBACK_UNKNOWN: PortLoopback
PORT_LOOPBACK_NONE: PortLoopback
PORT_LOOPBACK_NEAR_END_PMA: PortLoopback

class DevicePciInfo(_message.Message):
    __slots__ = ("bus_id", "vendor_id", "device_id")
    BUS_ID_FIELD_NUMBER: _ClassVar[int]
    VENDOR_ID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    bus_id: str
    vendor_id: int
    device_id: int
    def __init__(self, bus_id: _Optional[str] = ..., vendor_id: _Optional[int] = ..., device_id: _Optional[int] = ...) -> None: ...

class DeviceBuildEnvironment(_message.Message):
    __slots__ = ("hw_version", "fw_version", "sw_version")
    HW_VERSION_FIELD_NUMBER: _ClassVar[int]
    FW_VERSION_FIELD_NUMBER: _ClassVar[int]
    SW_VERSION_FIELD_NUMBER: _ClassVar[int]
    hw_version: str
    fw_version: str
    sw_version: str
    def __init__(self, hw_version: _Optional[str] = ..., fw_version: _Optional[str] = ..., sw_version: _Optional[str] = ...) -> None: ...

class DeviceBuildInfo(_message.Message):
    __slots__ = ("number", "status", "dna", "env")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DNA_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    number: int
    status: int
    dna: _containers.RepeatedScalarFieldContainer[int]
    env: DeviceBuildEnvironment
    def __init__(self, number: _Optional[int] = ..., status: _Optional[int] = ..., dna: _Optional[_Iterable[int]] = ..., env: _Optional[_Union[DeviceBuildEnvironment, _Mapping]] = ...) -> None: ...

class DeviceCardInfo(_message.Message):
    __slots__ = ("name", "profile", "serial_number", "revision", "sc_version", "fan_presence", "total_power_avail", "config_mode", "cage_types", "mac_addrs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SERIAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SC_VERSION_FIELD_NUMBER: _ClassVar[int]
    FAN_PRESENCE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_POWER_AVAIL_FIELD_NUMBER: _ClassVar[int]
    CONFIG_MODE_FIELD_NUMBER: _ClassVar[int]
    CAGE_TYPES_FIELD_NUMBER: _ClassVar[int]
    MAC_ADDRS_FIELD_NUMBER: _ClassVar[int]
    name: str
    profile: str
    serial_number: str
    revision: str
    sc_version: str
    fan_presence: str
    total_power_avail: int
    config_mode: str
    cage_types: _containers.RepeatedScalarFieldContainer[str]
    mac_addrs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., profile: _Optional[str] = ..., serial_number: _Optional[str] = ..., revision: _Optional[str] = ..., sc_version: _Optional[str] = ..., fan_presence: _Optional[str] = ..., total_power_avail: _Optional[int] = ..., config_mode: _Optional[str] = ..., cage_types: _Optional[_Iterable[str]] = ..., mac_addrs: _Optional[_Iterable[str]] = ...) -> None: ...

class DeviceInfo(_message.Message):
    __slots__ = ("pci", "build", "card")
    PCI_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    pci: DevicePciInfo
    build: DeviceBuildInfo
    card: DeviceCardInfo
    def __init__(self, pci: _Optional[_Union[DevicePciInfo, _Mapping]] = ..., build: _Optional[_Union[DeviceBuildInfo, _Mapping]] = ..., card: _Optional[_Union[DeviceCardInfo, _Mapping]] = ...) -> None: ...

class DeviceInfoRequest(_message.Message):
    __slots__ = ("dev_id",)
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    dev_id: int
    def __init__(self, dev_id: _Optional[int] = ...) -> None: ...

class DeviceInfoResponse(_message.Message):
    __slots__ = ("error_code", "dev_id", "info")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    dev_id: int
    info: DeviceInfo
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., dev_id: _Optional[int] = ..., info: _Optional[_Union[DeviceInfo, _Mapping]] = ...) -> None: ...

class SwitchIngressSelector(_message.Message):
    __slots__ = ("index", "intf", "dest")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    INTF_FIELD_NUMBER: _ClassVar[int]
    DEST_FIELD_NUMBER: _ClassVar[int]
    index: int
    intf: SwitchInterface
    dest: SwitchDestination
    def __init__(self, index: _Optional[int] = ..., intf: _Optional[_Union[SwitchInterface, str]] = ..., dest: _Optional[_Union[SwitchDestination, str]] = ...) -> None: ...

class SwitchEgressSelector(_message.Message):
    __slots__ = ("index", "intf")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    INTF_FIELD_NUMBER: _ClassVar[int]
    index: int
    intf: SwitchInterface
    def __init__(self, index: _Optional[int] = ..., intf: _Optional[_Union[SwitchInterface, str]] = ...) -> None: ...

class SwitchConfig(_message.Message):
    __slots__ = ("ingress_selectors", "egress_selectors", "bypass_mode")
    INGRESS_SELECTORS_FIELD_NUMBER: _ClassVar[int]
    EGRESS_SELECTORS_FIELD_NUMBER: _ClassVar[int]
    BYPASS_MODE_FIELD_NUMBER: _ClassVar[int]
    ingress_selectors: _containers.RepeatedCompositeFieldContainer[SwitchIngressSelector]
    egress_selectors: _containers.RepeatedCompositeFieldContainer[SwitchEgressSelector]
    bypass_mode: SwitchBypassMode
    def __init__(self, ingress_selectors: _Optional[_Iterable[_Union[SwitchIngressSelector, _Mapping]]] = ..., egress_selectors: _Optional[_Iterable[_Union[SwitchEgressSelector, _Mapping]]] = ..., bypass_mode: _Optional[_Union[SwitchBypassMode, str]] = ...) -> None: ...

class SwitchConfigRequest(_message.Message):
    __slots__ = ("dev_id", "config")
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    dev_id: int
    config: SwitchConfig
    def __init__(self, dev_id: _Optional[int] = ..., config: _Optional[_Union[SwitchConfig, _Mapping]] = ...) -> None: ...

class SwitchConfigResponse(_message.Message):
    __slots__ = ("error_code", "dev_id", "config")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    dev_id: int
    config: SwitchConfig
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., dev_id: _Optional[int] = ..., config: _Optional[_Union[SwitchConfig, _Mapping]] = ...) -> None: ...

class HostFunctionId(_message.Message):
    __slots__ = ("ftype", "index")
    FTYPE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ftype: HostFunctionType
    index: int
    def __init__(self, ftype: _Optional[_Union[HostFunctionType, str]] = ..., index: _Optional[int] = ...) -> None: ...

class HostFunctionDmaConfig(_message.Message):
    __slots__ = ("func_id", "base_queue", "num_queues")
    FUNC_ID_FIELD_NUMBER: _ClassVar[int]
    BASE_QUEUE_FIELD_NUMBER: _ClassVar[int]
    NUM_QUEUES_FIELD_NUMBER: _ClassVar[int]
    func_id: HostFunctionId
    base_queue: int
    num_queues: int
    def __init__(self, func_id: _Optional[_Union[HostFunctionId, _Mapping]] = ..., base_queue: _Optional[int] = ..., num_queues: _Optional[int] = ...) -> None: ...

class HostDmaConfig(_message.Message):
    __slots__ = ("functions", "reset")
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    functions: _containers.RepeatedCompositeFieldContainer[HostFunctionDmaConfig]
    reset: bool
    def __init__(self, functions: _Optional[_Iterable[_Union[HostFunctionDmaConfig, _Mapping]]] = ..., reset: _Optional[bool] = ...) -> None: ...

class HostConfig(_message.Message):
    __slots__ = ("dma",)
    DMA_FIELD_NUMBER: _ClassVar[int]
    dma: HostDmaConfig
    def __init__(self, dma: _Optional[_Union[HostDmaConfig, _Mapping]] = ...) -> None: ...

class HostConfigRequest(_message.Message):
    __slots__ = ("dev_id", "host_id", "config")
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    dev_id: int
    host_id: int
    config: HostConfig
    def __init__(self, dev_id: _Optional[int] = ..., host_id: _Optional[int] = ..., config: _Optional[_Union[HostConfig, _Mapping]] = ...) -> None: ...

class HostConfigResponse(_message.Message):
    __slots__ = ("error_code", "dev_id", "host_id", "config")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    dev_id: int
    host_id: int
    config: HostConfig
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., dev_id: _Optional[int] = ..., host_id: _Optional[int] = ..., config: _Optional[_Union[HostConfig, _Mapping]] = ...) -> None: ...

class PortConfig(_message.Message):
    __slots__ = ("state", "fec", "loopback")
    STATE_FIELD_NUMBER: _ClassVar[int]
    FEC_FIELD_NUMBER: _ClassVar[int]
    LOOPBACK_FIELD_NUMBER: _ClassVar[int]
    state: PortState
    fec: PortFec
    loopback: PortLoopback
    def __init__(self, state: _Optional[_Union[PortState, str]] = ..., fec: _Optional[_Union[PortFec, str]] = ..., loopback: _Optional[_Union[PortLoopback, str]] = ...) -> None: ...

class PortConfigRequest(_message.Message):
    __slots__ = ("dev_id", "port_id", "config")
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    dev_id: int
    port_id: int
    config: PortConfig
    def __init__(self, dev_id: _Optional[int] = ..., port_id: _Optional[int] = ..., config: _Optional[_Union[PortConfig, _Mapping]] = ...) -> None: ...

class PortConfigResponse(_message.Message):
    __slots__ = ("error_code", "dev_id", "port_id", "config")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    dev_id: int
    port_id: int
    config: PortConfig
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., dev_id: _Optional[int] = ..., port_id: _Optional[int] = ..., config: _Optional[_Union[PortConfig, _Mapping]] = ...) -> None: ...

class ServerStatus(_message.Message):
    __slots__ = ("start_time", "up_time")
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    UP_TIME_FIELD_NUMBER: _ClassVar[int]
    start_time: _timestamp_pb2.Timestamp
    up_time: _duration_pb2.Duration
    def __init__(self, start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., up_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ServerStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerStatusResponse(_message.Message):
    __slots__ = ("error_code", "status")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    status: ServerStatus
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., status: _Optional[_Union[ServerStatus, _Mapping]] = ...) -> None: ...
