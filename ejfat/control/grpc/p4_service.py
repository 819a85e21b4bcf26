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

from ejfat.base.errors import ControlError, EjfatError
from ejfat.control.grpc import rules
from ejfat.control.grpc.metrics import Metrics
from ejfat.control.grpc.rules import Rule, RuleError, RuleFault, RuleMatch
from ejfat.control.grpc.serving import Context, require_token
from ejfat.control.grpc.stats import is_selected, stats_of
from ejfat.control.pb import sn_p4_v2_pb2 as pb
from ejfat.control.pb import sn_p4_v2_pb2_grpc as pb_grpc
from ejfat.pipeline import Pipeline
from ejfat.tables.match_action import MatchKind
from ejfat.tables.schema import V23_SPECS, Dialect, Update

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
            return (rules.insertion(_rule(rule)) for rule in request.rules)

        return self._change(request, updates, pb.EC_FAILED_INSERT_TABLE_RULE)

    def _delete(self, request: pb.TableRuleRequest) -> pb.TableRuleResponse:
        def updates() -> Iterator[Update]:
            found = {}
            for rule in request.rules:
                update = rules.deletion(_rule(rule), self._pipeline.tables)
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
