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
    EC_UNKNOWN_BATCH_REQUEST: _ClassVar[ErrorCode]
    EC_UNKNOWN_BATCH_OP: _ClassVar[ErrorCode]
    EC_INVALID_DEVICE_ID: _ClassVar[ErrorCode]
    EC_INVALID_PIPELINE_ID: _ClassVar[ErrorCode]
    EC_INVALID_TABLE_NAME: _ClassVar[ErrorCode]
    EC_INVALID_ACTION_NAME: _ClassVar[ErrorCode]
    EC_TABLE_RULE_TOO_FEW_MATCHES: _ClassVar[ErrorCode]
    EC_TABLE_RULE_TOO_MANY_MATCHES: _ClassVar[ErrorCode]
    EC_TABLE_RULE_TOO_FEW_ACTION_PARAMETERS: _ClassVar[ErrorCode]
    EC_TABLE_RULE_TOO_MANY_ACTION_PARAMETERS: _ClassVar[ErrorCode]
    EC_TABLE_RULE_INVALID_ACTION_PARAMETER_FORMAT: _ClassVar[ErrorCode]
    EC_TABLE_RULE_MATCH_INVALID_KEY_FORMAT: _ClassVar[ErrorCode]
    EC_TABLE_RULE_MATCH_INVALID_MASK_FORMAT: _ClassVar[ErrorCode]
    EC_TABLE_RULE_MATCH_INVALID_PREFIX_LENGTH: _ClassVar[ErrorCode]
    EC_UNKNOWN_TABLE_RULE_MATCH_TYPE: _ClassVar[ErrorCode]
    EC_FAILED_INSERT_TABLE_RULE: _ClassVar[ErrorCode]
    EC_FAILED_DELETE_TABLE_RULE: _ClassVar[ErrorCode]
    EC_SERVER_INVALID_DEBUG_FLAG: _ClassVar[ErrorCode]

class StatsMetricType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATS_METRIC_TYPE_UNKNOWN: _ClassVar[StatsMetricType]
    STATS_METRIC_TYPE_COUNTER: _ClassVar[StatsMetricType]
    STATS_METRIC_TYPE_GAUGE: _ClassVar[StatsMetricType]
    STATS_METRIC_TYPE_FLAG: _ClassVar[StatsMetricType]

class MatchType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MATCH_TYPE_UNKNOWN: _ClassVar[MatchType]
    MATCH_TYPE_BITFIELD: _ClassVar[MatchType]
    MATCH_TYPE_CONSTANT: _ClassVar[MatchType]
    MATCH_TYPE_PREFIX: _ClassVar[MatchType]
    MATCH_TYPE_RANGE: _ClassVar[MatchType]
    MATCH_TYPE_TERNARY: _ClassVar[MatchType]
    MATCH_TYPE_UNUSED: _ClassVar[MatchType]

class ServerDebugFlag(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEBUG_FLAG_UNKNOWN: _ClassVar[ServerDebugFlag]
    DEBUG_FLAG_TABLE_CLEAR: _ClassVar[ServerDebugFlag]
    DEBUG_FLAG_TABLE_RULE_INSERT: _ClassVar[ServerDebugFlag]
    DEBUG_FLAG_TABLE_RULE_DELETE: _ClassVar[ServerDebugFlag]
    DEBUG_FLAG_PIPELINE_INFO: _ClassVar[ServerDebugFlag]
    DEBUG_FLAG_PIPELINE_DRIVER: _ClassVar[ServerDebugFlag]
    DEBUG_FLAG_STATS: _ClassVar[ServerDebugFlag]

class BatchOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BOP_UNKNOWN: _ClassVar[BatchOperation]
    BOP_GET: _ClassVar[BatchOperation]
    BOP_SET: _ClassVar[BatchOperation]
    BOP_CLEAR: _ClassVar[BatchOperation]
    BOP_INSERT: _ClassVar[BatchOperation]
    BOP_DELETE: _ClassVar[BatchOperation]
EC_UNKNOWN: ErrorCode
EC_OK: ErrorCode
EC_UNKNOWN_BATCH_REQUEST: ErrorCode
EC_UNKNOWN_BATCH_OP: ErrorCode
EC_INVALID_DEVICE_ID: ErrorCode
EC_INVALID_PIPELINE_ID: ErrorCode
EC_INVALID_TABLE_NAME: ErrorCode
EC_INVALID_ACTION_NAME: ErrorCode
EC_TABLE_RULE_TOO_FEW_MATCHES: ErrorCode
EC_TABLE_RULE_TOO_MANY_MATCHES: ErrorCode
EC_TABLE_RULE_TOO_FEW_ACTION_PARAMETERS: ErrorCode
EC_TABLE_RULE_TOO_MANY_ACTION_PARAMETERS: ErrorCode
EC_TABLE_RULE_INVALID_ACTION_PARAMETER_FORMAT: ErrorCode
EC_TABLE_RULE_MATCH_INVALID_KEY_FORMAT: ErrorCode
EC_TABLE_RULE_MATCH_INVALID_MASK_FORMAT: ErrorCode
EC_TABLE_RULE_MATCH_INVALID_PREFIX_LENGTH: ErrorCode
EC_UNKNOWN_TABLE_RULE_MATCH_TYPE: ErrorCode
EC_FAILED_INSERT_TABLE_RULE: ErrorCode
EC_FAILED_DELETE_TABLE_RULE: ErrorCode
EC_SERVER_INVALID_DEBUG_FLAG: ErrorCode
STATS_METRIC_TYPE_UNKNOWN: StatsMetricType
STATS_METRIC_TYPE_COUNTER: StatsMetricType
STATS_METRIC_TYPE_GAUGE: StatsMetricType
STATS_METRIC_TYPE_FLAG: StatsMetricType
MATCH_TYPE_UNKNOWN: MatchType
MATCH_TYPE_BITFIELD: MatchType
MATCH_TYPE_CONSTANT: MatchType
MATCH_TYPE_PREFIX: MatchType
MATCH_TYPE_RANGE: MatchType
MATCH_TYPE_TERNARY: MatchType
MATCH_TYPE_UNUSED: MatchType
DEBUG_FLAG_UNKNOWN: ServerDebugFlag
DEBUG_FLAG_TABLE_CLEAR: ServerDebugFlag
DEBUG_FLAG_TABLE_RULE_INSERT: ServerDebugFlag
DEBUG_FLAG_TABLE_RULE_DELETE: ServerDebugFlag
DEBUG_FLAG_PIPELINE_INFO: ServerDebugFlag
DEBUG_FLAG_PIPELINE_DRIVER: ServerDebugFlag
DEBUG_FLAG_STATS: ServerDebugFlag
BOP_UNKNOWN: BatchOperation
BOP_GET: BatchOperation
BOP_SET: BatchOperation
BOP_CLEAR: BatchOperation
BOP_INSERT: BatchOperation
BOP_DELETE: BatchOperation

class StatsMetricScope(_message.Message):
    __slots__ = ("domain", "zone", "block")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    domain: str
    zone: str
    block: str
    def __init__(self, domain: _Optional[str] = ..., zone: _Optional[str] = ..., block: _Optional[str] = ...) -> None: ...

class StatsMetricLabel(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class StatsMetricValue(_message.Message):
    __slots__ = ("u64", "f64", "index", "labels")
    U64_FIELD_NUMBER: _ClassVar[int]
    F64_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    u64: int
    f64: float
    index: int
    labels: _containers.RepeatedCompositeFieldContainer[StatsMetricLabel]
    def __init__(self, u64: _Optional[int] = ..., f64: _Optional[float] = ..., index: _Optional[int] = ..., labels: _Optional[_Iterable[_Union[StatsMetricLabel, _Mapping]]] = ...) -> None: ...

class StatsMetric(_message.Message):
    __slots__ = ("type", "scope", "name", "num_elements", "values", "last_update")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_FIELD_NUMBER: _ClassVar[int]
    type: StatsMetricType
    scope: StatsMetricScope
    name: str
    num_elements: int
    values: _containers.RepeatedCompositeFieldContainer[StatsMetricValue]
    last_update: _timestamp_pb2.Timestamp
    def __init__(self, type: _Optional[_Union[StatsMetricType, str]] = ..., scope: _Optional[_Union[StatsMetricScope, _Mapping]] = ..., name: _Optional[str] = ..., num_elements: _Optional[int] = ..., values: _Optional[_Iterable[_Union[StatsMetricValue, _Mapping]]] = ..., last_update: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Stats(_message.Message):
    __slots__ = ("metrics",)
    METRICS_FIELD_NUMBER: _ClassVar[int]
    metrics: _containers.RepeatedCompositeFieldContainer[StatsMetric]
    def __init__(self, metrics: _Optional[_Iterable[_Union[StatsMetric, _Mapping]]] = ...) -> None: ...

class StringRegexp(_message.Message):
    __slots__ = ("grammar", "pattern")
    GRAMMAR_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    grammar: int
    pattern: str
    def __init__(self, grammar: _Optional[int] = ..., pattern: _Optional[str] = ...) -> None: ...

class StatsMetricMatchString(_message.Message):
    __slots__ = ("exact", "prefix", "suffix", "substring", "regexp", "split")
    class Split(_message.Message):
        __slots__ = ("pattern", "any", "part")
        class Part(_message.Message):
            __slots__ = ("negated", "match", "any_set", "all_set")
            class Match(_message.Message):
                __slots__ = ("value", "index")
                VALUE_FIELD_NUMBER: _ClassVar[int]
                INDEX_FIELD_NUMBER: _ClassVar[int]
                value: StatsMetricMatchString
                index: int
                def __init__(self, value: _Optional[_Union[StatsMetricMatchString, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...
            class Set(_message.Message):
                __slots__ = ("members",)
                MEMBERS_FIELD_NUMBER: _ClassVar[int]
                members: _containers.RepeatedCompositeFieldContainer[StatsMetricMatchString.Split.Part]
                def __init__(self, members: _Optional[_Iterable[_Union[StatsMetricMatchString.Split.Part, _Mapping]]] = ...) -> None: ...
            NEGATED_FIELD_NUMBER: _ClassVar[int]
            MATCH_FIELD_NUMBER: _ClassVar[int]
            ANY_SET_FIELD_NUMBER: _ClassVar[int]
            ALL_SET_FIELD_NUMBER: _ClassVar[int]
            negated: bool
            match: StatsMetricMatchString.Split.Part.Match
            any_set: StatsMetricMatchString.Split.Part.Set
            all_set: StatsMetricMatchString.Split.Part.Set
            def __init__(self, negated: _Optional[bool] = ..., match: _Optional[_Union[StatsMetricMatchString.Split.Part.Match, _Mapping]] = ..., any_set: _Optional[_Union[StatsMetricMatchString.Split.Part.Set, _Mapping]] = ..., all_set: _Optional[_Union[StatsMetricMatchString.Split.Part.Set, _Mapping]] = ...) -> None: ...
        PATTERN_FIELD_NUMBER: _ClassVar[int]
        ANY_FIELD_NUMBER: _ClassVar[int]
        PART_FIELD_NUMBER: _ClassVar[int]
        pattern: str
        any: bool
        part: StatsMetricMatchString.Split.Part
        def __init__(self, pattern: _Optional[str] = ..., any: _Optional[bool] = ..., part: _Optional[_Union[StatsMetricMatchString.Split.Part, _Mapping]] = ...) -> None: ...
    EXACT_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    SUBSTRING_FIELD_NUMBER: _ClassVar[int]
    REGEXP_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    exact: str
    prefix: str
    suffix: str
    substring: str
    regexp: StringRegexp
    split: StatsMetricMatchString.Split
    def __init__(self, exact: _Optional[str] = ..., prefix: _Optional[str] = ..., suffix: _Optional[str] = ..., substring: _Optional[str] = ..., regexp: _Optional[_Union[StringRegexp, _Mapping]] = ..., split: _Optional[_Union[StatsMetricMatchString.Split, _Mapping]] = ...) -> None: ...

class StatsMetricMatchIndexSlice(_message.Message):
    __slots__ = ("start", "end", "step")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    step: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class StatsMetricMatchIndices(_message.Message):
    __slots__ = ("slices",)
    SLICES_FIELD_NUMBER: _ClassVar[int]
    slices: _containers.RepeatedCompositeFieldContainer[StatsMetricMatchIndexSlice]
    def __init__(self, slices: _Optional[_Iterable[_Union[StatsMetricMatchIndexSlice, _Mapping]]] = ...) -> None: ...

class StatsMetricMatchLabel(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: StatsMetricMatchString
    value: StatsMetricMatchString
    def __init__(self, key: _Optional[_Union[StatsMetricMatchString, _Mapping]] = ..., value: _Optional[_Union[StatsMetricMatchString, _Mapping]] = ...) -> None: ...

class StatsMetricMatch(_message.Message):
    __slots__ = ("type", "domain", "zone", "block", "name", "indices", "label")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    type: StatsMetricType
    domain: StatsMetricMatchString
    zone: StatsMetricMatchString
    block: StatsMetricMatchString
    name: StatsMetricMatchString
    indices: StatsMetricMatchIndices
    label: StatsMetricMatchLabel
    def __init__(self, type: _Optional[_Union[StatsMetricType, str]] = ..., domain: _Optional[_Union[StatsMetricMatchString, _Mapping]] = ..., zone: _Optional[_Union[StatsMetricMatchString, _Mapping]] = ..., block: _Optional[_Union[StatsMetricMatchString, _Mapping]] = ..., name: _Optional[_Union[StatsMetricMatchString, _Mapping]] = ..., indices: _Optional[_Union[StatsMetricMatchIndices, _Mapping]] = ..., label: _Optional[_Union[StatsMetricMatchLabel, _Mapping]] = ...) -> None: ...

class StatsMetricFilter(_message.Message):
    __slots__ = ("negated", "match", "any_set", "all_set")
    class Set(_message.Message):
        __slots__ = ("members",)
        MEMBERS_FIELD_NUMBER: _ClassVar[int]
        members: _containers.RepeatedCompositeFieldContainer[StatsMetricFilter]
        def __init__(self, members: _Optional[_Iterable[_Union[StatsMetricFilter, _Mapping]]] = ...) -> None: ...
    NEGATED_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    ANY_SET_FIELD_NUMBER: _ClassVar[int]
    ALL_SET_FIELD_NUMBER: _ClassVar[int]
    negated: bool
    match: StatsMetricMatch
    any_set: StatsMetricFilter.Set
    all_set: StatsMetricFilter.Set
    def __init__(self, negated: _Optional[bool] = ..., match: _Optional[_Union[StatsMetricMatch, _Mapping]] = ..., any_set: _Optional[_Union[StatsMetricFilter.Set, _Mapping]] = ..., all_set: _Optional[_Union[StatsMetricFilter.Set, _Mapping]] = ...) -> None: ...

class StatsFilters(_message.Message):
    __slots__ = ("metric_types", "non_zero", "metric_filter", "with_labels")
    METRIC_TYPES_FIELD_NUMBER: _ClassVar[int]
    NON_ZERO_FIELD_NUMBER: _ClassVar[int]
    METRIC_FILTER_FIELD_NUMBER: _ClassVar[int]
    WITH_LABELS_FIELD_NUMBER: _ClassVar[int]
    metric_types: _containers.RepeatedScalarFieldContainer[StatsMetricType]
    non_zero: bool
    metric_filter: StatsMetricFilter
    with_labels: bool
    def __init__(self, metric_types: _Optional[_Iterable[_Union[StatsMetricType, str]]] = ..., non_zero: _Optional[bool] = ..., metric_filter: _Optional[_Union[StatsMetricFilter, _Mapping]] = ..., with_labels: _Optional[bool] = ...) -> None: ...

class StatsRequest(_message.Message):
    __slots__ = ("dev_id", "filters")
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    dev_id: int
    filters: StatsFilters
    def __init__(self, dev_id: _Optional[int] = ..., filters: _Optional[_Union[StatsFilters, _Mapping]] = ...) -> None: ...

class StatsResponse(_message.Message):
    __slots__ = ("error_code", "dev_id", "stats")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    dev_id: int
    stats: Stats
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., dev_id: _Optional[int] = ..., stats: _Optional[_Union[Stats, _Mapping]] = ...) -> None: ...

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

class DeviceInfo(_message.Message):
    __slots__ = ("pci", "build")
    PCI_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    pci: DevicePciInfo
    build: DeviceBuildInfo
    def __init__(self, pci: _Optional[_Union[DevicePciInfo, _Mapping]] = ..., build: _Optional[_Union[DeviceBuildInfo, _Mapping]] = ...) -> None: ...

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

class MatchInfo(_message.Message):
    __slots__ = ("type", "width")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    type: MatchType
    width: int
    def __init__(self, type: _Optional[_Union[MatchType, str]] = ..., width: _Optional[int] = ...) -> None: ...

class ActionParameterInfo(_message.Message):
    __slots__ = ("name", "width")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    name: str
    width: int
    def __init__(self, name: _Optional[str] = ..., width: _Optional[int] = ...) -> None: ...

class ActionInfo(_message.Message):
    __slots__ = ("name", "width", "parameters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    width: int
    parameters: _containers.RepeatedCompositeFieldContainer[ActionParameterInfo]
    def __init__(self, name: _Optional[str] = ..., width: _Optional[int] = ..., parameters: _Optional[_Iterable[_Union[ActionParameterInfo, _Mapping]]] = ...) -> None: ...

class TableInfo(_message.Message):
    __slots__ = ("name", "num_entries", "priority_required", "key_width", "response_width", "matches", "actions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    KEY_WIDTH_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    num_entries: int
    priority_required: bool
    key_width: int
    response_width: int
    matches: _containers.RepeatedCompositeFieldContainer[MatchInfo]
    actions: _containers.RepeatedCompositeFieldContainer[ActionInfo]
    def __init__(self, name: _Optional[str] = ..., num_entries: _Optional[int] = ..., priority_required: _Optional[bool] = ..., key_width: _Optional[int] = ..., response_width: _Optional[int] = ..., matches: _Optional[_Iterable[_Union[MatchInfo, _Mapping]]] = ..., actions: _Optional[_Iterable[_Union[ActionInfo, _Mapping]]] = ...) -> None: ...

class PipelineInfo(_message.Message):
    __slots__ = ("name", "tables")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    name: str
    tables: _containers.RepeatedCompositeFieldContainer[TableInfo]
    def __init__(self, name: _Optional[str] = ..., tables: _Optional[_Iterable[_Union[TableInfo, _Mapping]]] = ...) -> None: ...

class PipelineInfoRequest(_message.Message):
    __slots__ = ("dev_id", "pipeline_id")
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    dev_id: int
    pipeline_id: int
    def __init__(self, dev_id: _Optional[int] = ..., pipeline_id: _Optional[int] = ...) -> None: ...

class PipelineInfoResponse(_message.Message):
    __slots__ = ("error_code", "dev_id", "pipeline_id", "info")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    dev_id: int
    pipeline_id: int
    info: PipelineInfo
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., dev_id: _Optional[int] = ..., pipeline_id: _Optional[int] = ..., info: _Optional[_Union[PipelineInfo, _Mapping]] = ...) -> None: ...

class PipelineStatsRequest(_message.Message):
    __slots__ = ("dev_id", "pipeline_id", "filters")
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    dev_id: int
    pipeline_id: int
    filters: StatsFilters
    def __init__(self, dev_id: _Optional[int] = ..., pipeline_id: _Optional[int] = ..., filters: _Optional[_Union[StatsFilters, _Mapping]] = ...) -> None: ...

class PipelineStatsResponse(_message.Message):
    __slots__ = ("error_code", "dev_id", "pipeline_id", "stats")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    dev_id: int
    pipeline_id: int
    stats: Stats
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., dev_id: _Optional[int] = ..., pipeline_id: _Optional[int] = ..., stats: _Optional[_Union[Stats, _Mapping]] = ...) -> None: ...

class TableRequest(_message.Message):
    __slots__ = ("dev_id", "pipeline_id", "table_name")
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    dev_id: int
    pipeline_id: int
    table_name: str
    def __init__(self, dev_id: _Optional[int] = ..., pipeline_id: _Optional[int] = ..., table_name: _Optional[str] = ...) -> None: ...

class TableResponse(_message.Message):
    __slots__ = ("error_code", "dev_id", "pipeline_id")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    dev_id: int
    pipeline_id: int
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., dev_id: _Optional[int] = ..., pipeline_id: _Optional[int] = ...) -> None: ...

class MatchKeyMask(_message.Message):
    __slots__ = ("key", "mask")
    KEY_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    key: str
    mask: str
    def __init__(self, key: _Optional[str] = ..., mask: _Optional[str] = ...) -> None: ...

class MatchKeyOnly(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class MatchKeyPrefix(_message.Message):
    __slots__ = ("key", "prefix_length")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PREFIX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    key: str
    prefix_length: int
    def __init__(self, key: _Optional[str] = ..., prefix_length: _Optional[int] = ...) -> None: ...

class MatchRange(_message.Message):
    __slots__ = ("lower", "upper")
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    lower: int
    upper: int
    def __init__(self, lower: _Optional[int] = ..., upper: _Optional[int] = ...) -> None: ...

class Match(_message.Message):
    __slots__ = ("key_mask", "key_only", "key_prefix", "range", "unused")
    KEY_MASK_FIELD_NUMBER: _ClassVar[int]
    KEY_ONLY_FIELD_NUMBER: _ClassVar[int]
    KEY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FIELD_NUMBER: _ClassVar[int]
    key_mask: MatchKeyMask
    key_only: MatchKeyOnly
    key_prefix: MatchKeyPrefix
    range: MatchRange
    unused: bool
    def __init__(self, key_mask: _Optional[_Union[MatchKeyMask, _Mapping]] = ..., key_only: _Optional[_Union[MatchKeyOnly, _Mapping]] = ..., key_prefix: _Optional[_Union[MatchKeyPrefix, _Mapping]] = ..., range: _Optional[_Union[MatchRange, _Mapping]] = ..., unused: _Optional[bool] = ...) -> None: ...

class ActionParameter(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: str
    def __init__(self, value: _Optional[str] = ...) -> None: ...

class Action(_message.Message):
    __slots__ = ("name", "parameters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    parameters: _containers.RepeatedCompositeFieldContainer[ActionParameter]
    def __init__(self, name: _Optional[str] = ..., parameters: _Optional[_Iterable[_Union[ActionParameter, _Mapping]]] = ...) -> None: ...

class TableRule(_message.Message):
    __slots__ = ("table_name", "priority", "replace", "matches", "action")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    table_name: str
    priority: int
    replace: bool
    matches: _containers.RepeatedCompositeFieldContainer[Match]
    action: Action
    def __init__(self, table_name: _Optional[str] = ..., priority: _Optional[int] = ..., replace: _Optional[bool] = ..., matches: _Optional[_Iterable[_Union[Match, _Mapping]]] = ..., action: _Optional[_Union[Action, _Mapping]] = ...) -> None: ...

class TableRuleRequest(_message.Message):
    __slots__ = ("dev_id", "pipeline_id", "rules")
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    dev_id: int
    pipeline_id: int
    rules: _containers.RepeatedCompositeFieldContainer[TableRule]
    def __init__(self, dev_id: _Optional[int] = ..., pipeline_id: _Optional[int] = ..., rules: _Optional[_Iterable[_Union[TableRule, _Mapping]]] = ...) -> None: ...

class TableRuleResponse(_message.Message):
    __slots__ = ("error_code", "dev_id", "pipeline_id")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DEV_ID_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    dev_id: int
    pipeline_id: int
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., dev_id: _Optional[int] = ..., pipeline_id: _Optional[int] = ...) -> None: ...

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

class ServerDebug(_message.Message):
    __slots__ = ("enables", "disables")
    ENABLES_FIELD_NUMBER: _ClassVar[int]
    DISABLES_FIELD_NUMBER: _ClassVar[int]
    enables: _containers.RepeatedScalarFieldContainer[ServerDebugFlag]
    disables: _containers.RepeatedScalarFieldContainer[ServerDebugFlag]
    def __init__(self, enables: _Optional[_Iterable[_Union[ServerDebugFlag, str]]] = ..., disables: _Optional[_Iterable[_Union[ServerDebugFlag, str]]] = ...) -> None: ...

class ServerConfig(_message.Message):
    __slots__ = ("debug",)
    DEBUG_FIELD_NUMBER: _ClassVar[int]
    debug: ServerDebug
    def __init__(self, debug: _Optional[_Union[ServerDebug, _Mapping]] = ...) -> None: ...

class ServerConfigRequest(_message.Message):
    __slots__ = ("config",)
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    config: ServerConfig
    def __init__(self, config: _Optional[_Union[ServerConfig, _Mapping]] = ...) -> None: ...

class ServerConfigResponse(_message.Message):
    __slots__ = ("error_code", "config")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    config: ServerConfig
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., config: _Optional[_Union[ServerConfig, _Mapping]] = ...) -> None: ...

class BatchRequest(_message.Message):
    __slots__ = ("op", "device_info", "pipeline_info", "pipeline_stats", "table", "table_rule", "stats", "server_status", "server_config")
    OP_FIELD_NUMBER: _ClassVar[int]
    DEVICE_INFO_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_INFO_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_STATS_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TABLE_RULE_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    SERVER_STATUS_FIELD_NUMBER: _ClassVar[int]
    SERVER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    op: BatchOperation
    device_info: DeviceInfoRequest
    pipeline_info: PipelineInfoRequest
    pipeline_stats: PipelineStatsRequest
    table: TableRequest
    table_rule: TableRuleRequest
    stats: StatsRequest
    server_status: ServerStatusRequest
    server_config: ServerConfigRequest
    def __init__(self, op: _Optional[_Union[BatchOperation, str]] = ..., device_info: _Optional[_Union[DeviceInfoRequest, _Mapping]] = ..., pipeline_info: _Optional[_Union[PipelineInfoRequest, _Mapping]] = ..., pipeline_stats: _Optional[_Union[PipelineStatsRequest, _Mapping]] = ..., table: _Optional[_Union[TableRequest, _Mapping]] = ..., table_rule: _Optional[_Union[TableRuleRequest, _Mapping]] = ..., stats: _Optional[_Union[StatsRequest, _Mapping]] = ..., server_status: _Optional[_Union[ServerStatusRequest, _Mapping]] = ..., server_config: _Optional[_Union[ServerConfigRequest, _Mapping]] = ...) -> None: ...

class BatchResponse(_message.Message):
    __slots__ = ("error_code", "op", "device_info", "pipeline_info", "pipeline_stats", "table", "table_rule", "stats", "server_status", "server_config")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    DEVICE_INFO_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_INFO_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_STATS_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TABLE_RULE_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    SERVER_STATUS_FIELD_NUMBER: _ClassVar[int]
    SERVER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    error_code: ErrorCode
    op: BatchOperation
    device_info: DeviceInfoResponse
    pipeline_info: PipelineInfoResponse
    pipeline_stats: PipelineStatsResponse
    table: TableResponse
    table_rule: TableRuleResponse
    stats: StatsResponse
    server_status: ServerStatusResponse
    server_config: ServerConfigResponse
    def __init__(self, error_code: _Optional[_Union[ErrorCode, str]] = ..., op: _Optional[_Union[BatchOperation, str]] = ..., device_info: _Optional[_Union[DeviceInfoResponse, _Mapping]] = ..., pipeline_info: _Optional[_Union[PipelineInfoResponse, _Mapping]] = ..., pipeline_stats: _Optional[_Union[PipelineStatsResponse, _Mapping]] = ..., table: _Optional[_Union[TableResponse, _Mapping]] = ..., table_rule: _Optional[_Union[TableRuleResponse, _Mapping]] = ..., stats: _Optional[_Union[StatsResponse, _Mapping]] = ..., server_status: _Optional[_Union[ServerStatusResponse, _Mapping]] = ..., server_config: _Optional[_Union[ServerConfigResponse, _Mapping]] = ...) -> None: ...
