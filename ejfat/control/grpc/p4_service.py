"""The `sn_p4.v2.SmartnicP4` service, by which a foreign control plane programs this data plane.

Source: the public interface, and the calls of the public control plane: it sends batches of thousands of rules and
    checks only the `table_rule.error_code` of the first response.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Any

import grpc

from ejfat.base.errors import ControlError, EjfatError, TableError
from ejfat.control.grpc.serving import Context, require_token
from ejfat.control.grpc.stats import Metrics, is_selected, stats_of
from ejfat.control.pb import sn_p4_v2_pb2 as pb
from ejfat.control.pb import sn_p4_v2_pb2_grpc as pb_grpc
from ejfat.pipeline import Pipeline
from ejfat.tables.match_action import Entry, KeyMatch, MatchKind, TableField, TableSpec, prefix_match
from ejfat.tables.schema import V23_SPECS, Dialect, Op, TableSet, Update

# --- table rules of a control plane: numbers as text, keys by kind, actions by name ------------------------
# As the public control plane requires, a rule whose key exists replaces the old one, regardless of its replace flag,
# and deleting a rule that does not exist is not an error.

_SPECS = {spec.name: spec for spec in V23_SPECS}


class RuleError(EjfatError):
    """A rule that does not fit any table, and the error code that says why."""

    def __init__(self, code: pb.ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def insertion(rule: pb.TableRule) -> Update:
    """Return the update that adds or replaces a rule.

    Raises:  RuleError: the rule is invalid.
    """
    spec, matches = _key(rule)
    action, given = rule.action.name, rule.action.parameters
    params = spec.actions.get(action)
    if params is None:
        raise RuleError(
            pb.EC_INVALID_ACTION_NAME,
            f"{spec.name}: no action {action!r}, expected {' or '.join(spec.actions)}",
        )
    if len(given) != len(params):
        raise RuleError(
            pb.EC_TABLE_RULE_TOO_FEW_ACTION_PARAMETERS
            if len(given) < len(params)
            else pb.EC_TABLE_RULE_TOO_MANY_ACTION_PARAMETERS,
            f"{spec.name}: {action} takes {len(params)} parameters, not {len(given)}",
        )
    code = pb.EC_TABLE_RULE_INVALID_ACTION_PARAMETER_FORMAT
    args = tuple(_number(spec, param, one.value, code) for param, one in zip(params, given, strict=True))
    return Update(Op.PUT, Dialect.V23, spec.name, Entry(matches, action, args, rule.priority))


def deletion(rule: pb.TableRule, tables: TableSet) -> Update | None:
    """Return the update that removes a rule, with any action; None if the rule does not exist.

    Raises:  RuleError: invalid table or key.
    """
    spec, matches = _key(rule)
    entry = tables.v23[spec.name].get(matches)
    return None if entry is None else Update(Op.DELETE, Dialect.V23, spec.name, entry)


def _key(rule: pb.TableRule) -> tuple[TableSpec, tuple[KeyMatch, ...]]:
    spec = _SPECS.get(rule.table_name)
    if spec is None:
        raise RuleError(
            pb.EC_INVALID_TABLE_NAME, f"no table {rule.table_name!r}, expected one of {', '.join(_SPECS)}"
        )
    given, wanted = len(rule.matches), len(spec.keys)
    if given != wanted:
        raise RuleError(
            pb.EC_TABLE_RULE_TOO_FEW_MATCHES if given < wanted else pb.EC_TABLE_RULE_TOO_MANY_MATCHES,
            f"{spec.name}: {given} matches, expected {wanted} ({spec.describe_keys()})",
        )
    return spec, tuple(_match(spec, key, match) for key, match in zip(spec.keys, rule.matches, strict=True))


def _match(spec: TableSpec, key: TableField, match: pb.Match) -> KeyMatch:
    name, kind = f"{spec.name}: {key.name}", match.WhichOneof("type")
    if kind == "unused":
        if key.kind is MatchKind.EXACT:
            raise RuleError(pb.EC_UNKNOWN_TABLE_RULE_MATCH_TYPE, f"{name} needs a key")
        return KeyMatch(0, 0)
    if kind not in ("key_only", "key_mask", "key_prefix"):
        raise RuleError(
            pb.EC_UNKNOWN_TABLE_RULE_MATCH_TYPE,
            f"match type {kind}, expected key_only, key_mask, key_prefix or unused",
        )
    given = getattr(match, kind)
    value, mask = _number(spec, key, given.key, pb.EC_TABLE_RULE_MATCH_INVALID_KEY_FORMAT), key.full_mask
    if kind == "key_prefix":
        if not 0 <= given.prefix_length <= key.width:
            raise RuleError(
                pb.EC_TABLE_RULE_MATCH_INVALID_PREFIX_LENGTH,
                f"{name}/{given.prefix_length}, expected 0 to {key.width}",
            )
        mask = prefix_match(0, given.prefix_length, key.width).mask
    elif kind == "key_mask":
        mask = _number(spec, key, given.mask, pb.EC_TABLE_RULE_MATCH_INVALID_MASK_FORMAT)
    if key.kind is MatchKind.EXACT and mask != key.full_mask:
        raise RuleError(
            pb.EC_UNKNOWN_TABLE_RULE_MATCH_TYPE, f"{name} is an exact key; its mask must have all bits set"
        )
    if key.kind is MatchKind.LPM and mask != prefix_match(0, mask.bit_count(), key.width).mask:
        raise RuleError(pb.EC_TABLE_RULE_MATCH_INVALID_MASK_FORMAT, f"{name} mask {mask:#x} is not a prefix")
    return KeyMatch(value & mask, mask)


def _number(spec: TableSpec, field: TableField, text: str, code: pb.ErrorCode) -> int:
    try:
        return field.number(text)
    except TableError as error:
        raise RuleError(code, f"{spec.name}: {error}") from None


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
            return (insertion(rule) for rule in request.rules)

        return self._change(request, updates, pb.EC_FAILED_INSERT_TABLE_RULE)

    def _delete(self, request: pb.TableRuleRequest) -> pb.TableRuleResponse:
        def updates() -> Iterator[Update]:
            found = {}
            for rule in request.rules:
                update = deletion(rule, self._pipeline.tables)
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
                code = error.code
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
                        name=name,
                        width=sum(param.width for param in params),
                        parameters=[pb.ActionParameterInfo(name=p.name, width=p.width) for p in params],
                    )
                    for name, params in spec.actions.items()
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
