"""The `sn_p4.v2.SmartnicP4` service, by which a foreign control plane programs this data plane.

Source: the public interface, and the calls of the public control plane: it sends batches of thousands of rules and
    checks only the `table_rule.error_code` of the first response.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

import grpc

from ejfat.base.errors import ControlError, EjfatError
from ejfat.control.grpc.serving import Context, require_token
from ejfat.control.grpc.stats import Metrics, is_selected, stats_of
from ejfat.control.pb import sn_p4_v2_pb2 as pb
from ejfat.control.pb import sn_p4_v2_pb2_grpc as pb_grpc
from ejfat.pipeline import Pipeline
from ejfat.tables.match_action import Entry, KeyField, KeyMatch, MatchKind, TableSpec, prefix_match
from ejfat.tables.schema import V23_SPECS, Dialect, Op, TableSet, Update

# --- table rules of a control plane: numbers as text, keys by kind, actions by name ------------------------
# As the public control plane requires, a rule whose key exists replaces the old one, regardless of its replace flag,
# and deleting a rule that does not exist is not an error.

_SPECS = {spec.name: spec for spec in V23_SPECS}


class RuleFault(Enum):
    """Kinds of invalid rules; the value names the error code of the P4 service."""

    TABLE = "EC_INVALID_TABLE_NAME"
    ACTION = "EC_INVALID_ACTION_NAME"
    TOO_FEW_MATCHES = "EC_TABLE_RULE_TOO_FEW_MATCHES"
    TOO_MANY_MATCHES = "EC_TABLE_RULE_TOO_MANY_MATCHES"
    TOO_FEW_PARAMETERS = "EC_TABLE_RULE_TOO_FEW_ACTION_PARAMETERS"
    TOO_MANY_PARAMETERS = "EC_TABLE_RULE_TOO_MANY_ACTION_PARAMETERS"
    PARAMETER = "EC_TABLE_RULE_INVALID_ACTION_PARAMETER_FORMAT"
    KEY = "EC_TABLE_RULE_MATCH_INVALID_KEY_FORMAT"
    MASK = "EC_TABLE_RULE_MATCH_INVALID_MASK_FORMAT"
    PREFIX_LENGTH = "EC_TABLE_RULE_MATCH_INVALID_PREFIX_LENGTH"
    MATCH_TYPE = "EC_UNKNOWN_TABLE_RULE_MATCH_TYPE"


class RuleError(EjfatError):
    """A rule that does not fit any table."""

    def __init__(self, fault: RuleFault, reason: str) -> None:
        super().__init__(reason)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A key field of a rule: `key` alone, with `mask`, or with `prefix_length`; all None: any value."""

    key: str | None = None
    mask: str | None = None
    prefix_length: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as text."""

    table: str
    matches: tuple[RuleMatch, ...]
    action: str = ""
    parameters: tuple[str, ...] = ()
    priority: int = 0


def insertion(rule: Rule) -> Update:
    """Return the update that adds or replaces a rule.

    Raises:  RuleError: the rule is invalid.
    """
    spec, matches = _key(rule)
    action = spec.actions.get(rule.action)
    if action is None:
        raise RuleError(
            RuleFault.ACTION, f"{spec.name}: no action {rule.action!r}, expected {' or '.join(spec.actions)}"
        )
    given, wanted = len(rule.parameters), len(action.params)
    if given != wanted:
        fault = RuleFault.TOO_FEW_PARAMETERS if given < wanted else RuleFault.TOO_MANY_PARAMETERS
        raise RuleError(fault, f"{spec.name}: {action.name} takes {wanted} parameters, not {given}")
    args = tuple(
        _number(text, param.width, RuleFault.PARAMETER, f"{spec.name}: {param.name}")
        for param, text in zip(action.params, rule.parameters, strict=True)
    )
    return Update(Op.PUT, Dialect.V23, spec.name, Entry(matches, action.name, args, rule.priority))


def deletion(rule: Rule, tables: TableSet) -> Update | None:
    """Return the update that removes a rule, with any action; None if the rule does not exist.

    Raises:  RuleError: invalid table or key.
    """
    spec, matches = _key(rule)
    entry = tables.v23[spec.name].get(matches)
    return None if entry is None else Update(Op.DELETE, Dialect.V23, spec.name, entry)


def _key(rule: Rule) -> tuple[TableSpec, tuple[KeyMatch, ...]]:
    spec = _SPECS.get(rule.table)
    if spec is None:
        raise RuleError(RuleFault.TABLE, f"no table {rule.table!r}, expected one of {', '.join(_SPECS)}")
    given, wanted = len(rule.matches), len(spec.keys)
    if given != wanted:
        fault = RuleFault.TOO_FEW_MATCHES if given < wanted else RuleFault.TOO_MANY_MATCHES
        raise RuleError(fault, f"{spec.name}: {given} matches, expected {wanted} ({spec.describe_keys()})")
    return spec, _matches(spec, rule.matches)


def _matches(spec: TableSpec, matches: Sequence[RuleMatch]) -> tuple[KeyMatch, ...]:
    return tuple(_match(spec, key, match) for key, match in zip(spec.keys, matches, strict=True))


def _match(spec: TableSpec, key: KeyField, match: RuleMatch) -> KeyMatch:
    name = f"{spec.name}: {key.name}"
    if match.key is None:
        if key.kind is MatchKind.EXACT:
            raise RuleError(RuleFault.MATCH_TYPE, f"{name} needs a key")
        return KeyMatch(0, 0)
    value = _number(match.key, key.width, RuleFault.KEY, name)
    if match.prefix_length is not None:
        if not 0 <= match.prefix_length <= key.width:
            raise RuleError(
                RuleFault.PREFIX_LENGTH, f"{name}/{match.prefix_length}, expected 0 to {key.width}"
            )
        found = prefix_match(value, match.prefix_length, key.width)
    else:
        mask = (
            key.full_mask
            if match.mask is None
            else _number(match.mask, key.width, RuleFault.MASK, f"{name} mask")
        )
        found = KeyMatch(value & mask, mask)
    if key.kind is MatchKind.EXACT and found.mask != key.full_mask:
        raise RuleError(RuleFault.MATCH_TYPE, f"{name} is an exact key; its mask must have all bits set")
    if key.kind is MatchKind.LPM and found.mask != prefix_match(0, found.prefix_length, key.width).mask:
        raise RuleError(RuleFault.MASK, f"{name} mask {found.mask:#x} is not a prefix")
    return found


def _number(text: str, width: int, fault: RuleFault, name: str) -> int:
    try:
        value = int(text, 16) if text[:2].lower() == "0x" else int(text, 10)
    except ValueError:
        raise RuleError(fault, f"{name} {text!r}, expected a number such as 0x1f") from None
    if not 0 <= value < 1 << width:
        raise RuleError(fault, f"{name} {text} does not fit {width} bits")
    return value


# -----------------------------------------------------------------------------------------------------------

log = logging.getLogger("ejfat.control.grpc")
_MATCH_TYPES = {
    MatchKind.EXACT: pb.MATCH_TYPE_CONSTANT,
    MatchKind.LPM: pb.MATCH_TYPE_PREFIX,
    MatchKind.FIELD_MASK: pb.MATCH_TYPE_BITFIELD,
}
_FLAGS = frozenset(value for name, value in pb.ServerDebugFlag.items() if name != "DEBUG_FLAG_UNKNOWN")


def _call(item: str, op: pb.BatchOperation) -> Callable[..., AsyncIterator[Any]]:
    """Return the RPC that does what an item of a batch does with an operation."""

    async def rpc(service: SmartnicP4Service, request: Any, context: Context) -> AsyncIterator[Any]:
        await require_token(context, service._token)
        await service._claim(item, context)
        yield service._handlers[item, op](request)

    return rpc


class SmartnicP4Service(pb_grpc.SmartnicP4Servicer):  # type: ignore[misc]
    """Rules and counters of one data plane: device 0, pipeline 0."""

    def __init__(
        self,
        pipeline: Pipeline,
        now: Callable[[], float],
        token: str,
        claim: Callable[[], None] = lambda: None,
    ) -> None:
        """Make it.

        Args:  now: returns Unix time in seconds. token: the bearer token that it requires; empty: none. claim: called
               before each change of a table; raises ControlError if changes are not allowed.
        """
        self._pipeline = pipeline
        self._now = now
        self._token = token
        self._take = claim
        self._metrics = Metrics(lambda: pipeline.counters)
        self._started = now()
        self._flags: set[pb.ServerDebugFlag] = set()
        self._handlers: dict[tuple[str, pb.BatchOperation], Callable[[Any], Any]] = {
            ("table_rule", pb.BOP_INSERT): self._insert,
            ("table_rule", pb.BOP_DELETE): self._delete,
            ("table", pb.BOP_CLEAR): self._clear,
            ("pipeline_info", pb.BOP_GET): self._info,
            ("pipeline_stats", pb.BOP_GET): self._stats,
            ("pipeline_stats", pb.BOP_CLEAR): self._clear_stats,
            ("stats", pb.BOP_GET): self._all_stats,
            ("stats", pb.BOP_CLEAR): self._clear_all_stats,
            ("server_config", pb.BOP_GET): lambda request: self._server_config(pb.ServerConfigRequest()),
            ("server_config", pb.BOP_SET): self._server_config,
            ("device_info", pb.BOP_GET): self._device,
            ("server_status", pb.BOP_GET): self._server_status,
        }

    async def Batch(self, requests: AsyncIterator[pb.BatchRequest], context: Context) -> AsyncIterator[Any]:
        await require_token(context, self._token)
        async for request in requests:
            await self._claim(request.WhichOneof("item"), context)
            yield self._batch_item(request)

    InsertTableRule = _call("table_rule", pb.BOP_INSERT)
    DeleteTableRule = _call("table_rule", pb.BOP_DELETE)
    ClearTable = _call("table", pb.BOP_CLEAR)
    GetPipelineInfo = _call("pipeline_info", pb.BOP_GET)
    GetPipelineStats = _call("pipeline_stats", pb.BOP_GET)
    ClearPipelineStats = _call("pipeline_stats", pb.BOP_CLEAR)
    GetDeviceInfo = _call("device_info", pb.BOP_GET)
    GetServerStatus = _call("server_status", pb.BOP_GET)
    GetStats = _call("stats", pb.BOP_GET)
    ClearStats = _call("stats", pb.BOP_CLEAR)
    GetServerConfig = _call("server_config", pb.BOP_GET)
    SetServerConfig = _call("server_config", pb.BOP_SET)

    async def _claim(self, item: str | None, context: Context) -> None:
        """Take the tables before what changes them; abort the call if that is not allowed."""
        if item not in ("table_rule", "table"):
            return
        try:
            self._take()
        except ControlError as error:
            log.info("refused %s: %s", context.peer(), error)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

    def _batch_item(self, request: pb.BatchRequest) -> pb.BatchResponse:
        item = request.WhichOneof("item")
        handler = self._handlers.get((item or "", request.op))
        if item is None or handler is None:
            code = pb.EC_UNKNOWN_BATCH_OP if item else pb.EC_UNKNOWN_BATCH_REQUEST
            return pb.BatchResponse(error_code=code, op=request.op)
        response = pb.BatchResponse(error_code=pb.EC_OK, op=request.op)
        getattr(response, item).CopyFrom(handler(getattr(request, item)))
        return response

    def _insert(self, request: pb.TableRuleRequest) -> pb.TableRuleResponse:
        def updates() -> Iterator[Update]:
            return (insertion(_rule(rule)) for rule in request.rules)

        return self._change(request, updates, pb.EC_FAILED_INSERT_TABLE_RULE)

    def _delete(self, request: pb.TableRuleRequest) -> pb.TableRuleResponse:
        def updates() -> Iterator[Update]:
            found = {}
            for rule in request.rules:
                update = deletion(_rule(rule), self._pipeline.tables)
                if update is not None:
                    found[update.table, update.matches] = update
            return iter(found.values())

        return self._change(request, updates, pb.EC_FAILED_DELETE_TABLE_RULE)

    def _change(
        self, request: pb.TableRuleRequest, updates: Callable[[], Iterable[Update]], failed: pb.ErrorCode
    ) -> pb.TableRuleResponse:
        """Apply all rules of a request or none of them."""
        code = _device_fault(request.dev_id, request.pipeline_id)
        if code == pb.EC_OK:
            try:
                self._pipeline.tables.apply(list(updates()))
            except RuleError as error:
                log.warning("refused a table rule: %s", error)
                code = getattr(pb, error.fault.value)
            except EjfatError as error:
                log.warning("refused a table rule: %s", error)
                code = failed
        return pb.TableRuleResponse(error_code=code)

    def _clear(self, request: pb.TableRequest) -> pb.TableResponse:
        code = _device_fault(request.dev_id, request.pipeline_id)
        tables = self._pipeline.tables.of(Dialect.V23)
        if code == pb.EC_OK and request.table_name and request.table_name not in tables:
            code = pb.EC_INVALID_TABLE_NAME
        if code == pb.EC_OK:
            names = [request.table_name] if request.table_name else list(tables)
            self._pipeline.tables.clear(Dialect.V23, names)
        return pb.TableResponse(error_code=code)

    def _info(self, request: pb.PipelineInfoRequest) -> pb.PipelineInfoResponse:
        tables = [
            pb.TableInfo(
                name=spec.name,
                num_entries=spec.size,
                priority_required=spec.takes_priority,
                key_width=sum(key.width for key in spec.keys),
                matches=[pb.MatchInfo(type=_MATCH_TYPES[key.kind], width=key.width) for key in spec.keys],
                actions=[
                    pb.ActionInfo(
                        name=action.name,
                        width=sum(param.width for param in action.params),
                        parameters=[
                            pb.ActionParameterInfo(name=p.name, width=p.width) for p in action.params
                        ],
                    )
                    for action in spec.actions.values()
                ],
            )
            for spec in V23_SPECS
        ]
        code = _device_fault(request.dev_id, request.pipeline_id)
        return pb.PipelineInfoResponse(error_code=code, info=pb.PipelineInfo(name="udplb", tables=tables))

    def _stats(self, request: pb.PipelineStatsRequest) -> pb.PipelineStatsResponse:
        code = _device_fault(request.dev_id, request.pipeline_id)
        stats = stats_of(self._metrics.read(), request.filters, self._now())
        return pb.PipelineStatsResponse(error_code=code, stats=stats)

    def _clear_stats(self, request: pb.PipelineStatsRequest) -> pb.PipelineStatsResponse:
        code = _device_fault(request.dev_id, request.pipeline_id)
        if code == pb.EC_OK:
            self._metrics.clear(partial(is_selected, request.filters))
        return pb.PipelineStatsResponse(error_code=code)

    def _all_stats(self, request: pb.StatsRequest) -> pb.StatsResponse:
        """Return the counters of the device: those of its one pipeline."""
        of = self._stats(pb.PipelineStatsRequest(dev_id=request.dev_id, filters=request.filters))
        return pb.StatsResponse(error_code=of.error_code, stats=of.stats)

    def _clear_all_stats(self, request: pb.StatsRequest) -> pb.StatsResponse:
        of = self._clear_stats(pb.PipelineStatsRequest(dev_id=request.dev_id, filters=request.filters))
        return pb.StatsResponse(error_code=of.error_code)

    def _server_config(self, request: pb.ServerConfigRequest) -> pb.ServerConfigResponse:
        """Set what a request asks for, and return the debug flags that are on; they have no effect here."""
        debug = request.config.debug
        given = {*debug.enables, *debug.disables}
        if not given <= _FLAGS:
            return pb.ServerConfigResponse(error_code=pb.EC_SERVER_INVALID_DEBUG_FLAG)
        self._flags = (self._flags | {*debug.enables}) - {*debug.disables}
        on = pb.ServerDebug(
            enables=sorted(self._flags), disables=map(pb.ServerDebugFlag.Name, sorted(_FLAGS - self._flags))
        )
        return pb.ServerConfigResponse(error_code=pb.EC_OK, config=pb.ServerConfig(debug=on))

    def _device(self, request: pb.DeviceInfoRequest) -> pb.DeviceInfoResponse:
        return pb.DeviceInfoResponse(error_code=_device_fault(request.dev_id, 0), info=pb.DeviceInfo())

    def _server_status(self, request: pb.ServerStatusRequest) -> pb.ServerStatusResponse:
        status = pb.ServerStatus()
        status.start_time.FromNanoseconds(round(self._started * 1e9))
        status.up_time.FromNanoseconds(round((self._now() - self._started) * 1e9))
        return pb.ServerStatusResponse(error_code=pb.EC_OK, status=status)


def _device_fault(dev_id: int, pipeline_id: int) -> pb.ErrorCode:
    if dev_id not in (-1, 0):
        return pb.EC_INVALID_DEVICE_ID
    return pb.EC_OK if pipeline_id in (-1, 0) else pb.EC_INVALID_PIPELINE_ID


def _rule(rule: pb.TableRule) -> Rule:
    return Rule(
        rule.table_name,
        tuple(_rule_match(match) for match in rule.matches),
        rule.action.name,
        tuple(parameter.value for parameter in rule.action.parameters),
        rule.priority,
    )


def _rule_match(match: pb.Match) -> RuleMatch:
    kind = match.WhichOneof("type")
    if kind == "key_only":
        return RuleMatch(match.key_only.key)
    if kind == "key_mask":
        return RuleMatch(match.key_mask.key, mask=match.key_mask.mask)
    if kind == "key_prefix":
        return RuleMatch(match.key_prefix.key, prefix_length=match.key_prefix.prefix_length)
    if kind == "unused":
        return RuleMatch()
    raise RuleError(
        RuleFault.MATCH_TYPE, f"match type {kind}, expected key_only, key_mask, key_prefix or unused"
    )
