"""A foreign control plane programs the data plane, as the public one does: batches over loopback."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from ejfat.control.grpc.p4_service import SmartnicP4Service
from ejfat.control.grpc.serving import start_server
from ejfat.control.pb import sn_p4_v2_pb2 as pb
from ejfat.control.pb import sn_p4_v2_pb2_grpc as pb_grpc
from ejfat.pipeline import Pipeline
from ejfat.tables.match_action import MatchKind
from ejfat.tables.schema import Dialect
from ejfat.tables.script import load_script
from unit.ejfat.pipelines import entries

VECTORS = Path(__file__).parents[2] / "vectors" / "ejfat"
TOKEN = (("authorization", "Bearer word"),)


@dataclass
class Client:
    stub: Any
    pipeline: Pipeline

    async def batch(self, op: int, *requests: pb.TableRuleRequest) -> list[int]:
        batches = iter([pb.BatchRequest(op=op, table_rule=request) for request in requests])  # type: ignore[arg-type]
        return [r.table_rule.error_code async for r in self.stub.Batch(batches, metadata=TOKEN, timeout=60)]

    async def one(self, rpc: str, request: Any) -> Any:
        (response,) = [r async for r in getattr(self.stub, rpc)(request, metadata=TOKEN, timeout=60)]
        return response

    async def metrics(self, **filters: Any) -> dict[str, dict[int, int]]:
        response = await self.one(
            "GetPipelineStats", pb.PipelineStatsRequest(dev_id=-1, filters=pb.StatsFilters(**filters))
        )
        assert response.error_code == pb.EC_OK
        return {m.name: {value.index: value.u64 for value in m.values} for m in response.stats.metrics}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    pipeline = Pipeline()
    service = SmartnicP4Service(pipeline, lambda: 1000.0, "word")
    server, port = await start_server(
        "127.0.0.1:0", lambda s: pb_grpc.add_SmartnicP4Servicer_to_server(service, s)
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Client(pb_grpc.SmartnicP4Stub(channel), pipeline)
    await server.stop(None)


def rule(
    table: str, matches: list[dict[str, Any]], action: str = "", *parameters: object, **values: Any
) -> pb.TableRule:
    return pb.TableRule(
        table_name=table,
        matches=[pb.Match(**match) for match in matches],
        action=pb.Action(name=action, parameters=[pb.ActionParameter(value=str(p)) for p in parameters]),
        **values,
    )


def only(key: str) -> dict[str, Any]:
    return {"key_only": {"key": key}}


def epoch(key: str, length: int, number: int, **values: Any) -> pb.TableRule:
    prefix = {"key_prefix": {"key": key, "prefix_length": length}}
    return rule("epoch_assign_table", [only("0x0"), prefix], "do_assign_epoch", hex(number), **values)


def ask(*rules: pb.TableRule, dev_id: int = -1) -> pb.TableRuleRequest:
    return pb.TableRuleRequest(dev_id=dev_id, rules=rules)


async def test_rules_of_the_vectors_sent_as_a_batch_forward_the_vectors(client: Client) -> None:
    data = json.loads(gzip.decompress((VECTORS / "v23-1.json.gz").read_bytes()))
    tables = load_script("\n".join(data["tables"]))
    rules = []
    for spec, entry in ((table.spec, entry) for _, table in tables for entry in table):
        matches: list[dict[str, Any]] = []
        for key, match in zip(spec.keys, entry.matches, strict=True):
            if key.kind is MatchKind.LPM:
                matches.append(
                    {"key_prefix": {"key": hex(match.value), "prefix_length": match.prefix_length}}
                )
            elif key.kind is MatchKind.FIELD_MASK:
                matches.append({"key_mask": {"key": hex(match.value), "mask": hex(match.mask)}})
            else:
                matches.append(only(hex(match.value)))
        rules.append(rule(spec.name, matches, entry.action, *map(hex, entry.args)))
    assert await client.batch(pb.BOP_INSERT, ask(*rules)) == [pb.EC_OK]
    for vector in data["vectors"]:
        frame = client.pipeline.process(bytes.fromhex(vector["in"])).frame
        assert (frame.hex() if frame else None) == vector["out"]


async def test_insert_of_a_key_that_is_there_takes_its_place(client: Client) -> None:
    codes = await client.batch(
        pb.BOP_INSERT,
        ask(epoch("0x0", 0, 1, priority=63), epoch("0x0", 0, 2, priority=63)),
        ask(epoch("0x10", 60, 3, replace=True)),
    )
    assert codes == [pb.EC_OK, pb.EC_OK]
    table = client.pipeline.tables.v23["epoch_assign_table"]
    assert [table.lookup(0, tick).args for tick in (0, 0x1F)] == [(2,), (3,)]  # type: ignore[union-attr]


async def test_delete_ignores_the_action_and_what_is_gone_already(client: Client) -> None:
    await client.batch(pb.BOP_INSERT, ask(epoch("0x0", 0, 1)))
    gone = ask(epoch("0x0", 0, 77), epoch("0x0", 0, 77), epoch("0x10", 60, 1))
    assert await client.batch(pb.BOP_DELETE, gone) == [pb.EC_OK]
    assert len(client.pipeline.tables.v23["epoch_assign_table"]) == 0


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (rule("nowhere", []), pb.EC_INVALID_TABLE_NAME),
        (rule("ipv4_src_filter_table", [only("0x0")], "allow_ip_src"), pb.EC_TABLE_RULE_TOO_FEW_MATCHES),
        (rule("ipv4_src_filter_table", [only("0x0")] * 3, "allow_ip_src"), pb.EC_TABLE_RULE_TOO_MANY_MATCHES),
        (rule("ipv4_src_filter_table", [only("0x0")] * 2, "jump"), pb.EC_INVALID_ACTION_NAME),
        (
            rule("ipv4_src_filter_table", [only("0x0"), only("zz")], "allow_ip_src"),
            pb.EC_TABLE_RULE_MATCH_INVALID_KEY_FORMAT,
        ),
        (
            rule("ipv4_src_filter_table", [only("0x0"), {"unused": True}], "allow_ip_src"),
            pb.EC_UNKNOWN_TABLE_RULE_MATCH_TYPE,
        ),
        (
            rule("ipv4_src_filter_table", [only("0x0"), {}], "allow_ip_src"),
            pb.EC_UNKNOWN_TABLE_RULE_MATCH_TYPE,
        ),
        (
            rule("ipv4_src_filter_table", [only("0x0")] * 2, "allow_ip_src", 1),
            pb.EC_TABLE_RULE_TOO_MANY_ACTION_PARAMETERS,
        ),
        (
            rule("load_balance_calendar_table", [only("0x0")] * 3, "do_assign_member"),
            pb.EC_TABLE_RULE_TOO_FEW_ACTION_PARAMETERS,
        ),
        (
            rule("load_balance_calendar_table", [only("0x0")] * 3, "do_assign_member", "0x10000"),
            pb.EC_TABLE_RULE_INVALID_ACTION_PARAMETER_FORMAT,
        ),
        (epoch("0x0", 65, 1), pb.EC_TABLE_RULE_MATCH_INVALID_PREFIX_LENGTH),
        (
            rule(
                "epoch_assign_table",
                [only("0x0"), {"key_mask": {"key": "0x1", "mask": "0x1"}}],
                "do_assign_epoch",
                1,
            ),
            pb.EC_TABLE_RULE_MATCH_INVALID_MASK_FORMAT,
        ),
    ],
)
async def test_bad_rule_is_refused_and_takes_its_whole_request_along(
    client: Client, bad: Any, code: int
) -> None:
    assert await client.batch(pb.BOP_INSERT, ask(epoch("0x0", 0, 1), bad)) == [code]
    assert entries(client.pipeline.tables, Dialect.V23) == 0


async def test_table_that_overflows_is_refused_and_unchanged(client: Client) -> None:
    sources = [rule("ipv4_src_filter_table", [only("0x0"), only(hex(n))], "allow_ip_src") for n in range(257)]
    assert await client.batch(pb.BOP_INSERT, ask(*sources)) == [pb.EC_FAILED_INSERT_TABLE_RULE]
    assert entries(client.pipeline.tables, Dialect.V23) == 0


async def test_single_rules_and_clearing(client: Client) -> None:
    assert (
        await client.one("InsertTableRule", ask(epoch("0x0", 0, 1), epoch("0x10", 60, 1)))
    ).error_code == pb.EC_OK
    assert (await client.one("DeleteTableRule", ask(epoch("0x10", 60, 1)))).error_code == pb.EC_OK
    assert entries(client.pipeline.tables, Dialect.V23) == 1
    clear = pb.TableRequest(dev_id=0, table_name="nowhere")
    assert (await client.one("ClearTable", clear)).error_code == pb.EC_INVALID_TABLE_NAME
    assert (await client.one("ClearTable", pb.TableRequest(dev_id=-1))).error_code == pb.EC_OK
    assert entries(client.pipeline.tables, Dialect.V23) == 0
    assert (await client.one("ClearTable", pb.TableRequest(dev_id=3))).error_code == pb.EC_INVALID_DEVICE_ID
    assert (await client.one("InsertTableRule", ask(dev_id=7))).error_code == pb.EC_INVALID_DEVICE_ID


@pytest.mark.parametrize(
    ("indices", "chosen"),
    [
        ({"start": 2, "end": 4}, [2, 3, 4]),
        ({"start": -2, "end": -1}, [14, 15]),
        ({"start": 5, "end": -1, "step": 5}, [5, 10, 15]),
        ({"start": -17, "end": 1}, [0, 1]),
        ({"start": 7, "end": 2}, []),
        ({"start": -17, "end": -17}, []),
    ],
)
async def test_indices_are_counted_from_the_end_where_they_are_negative(
    client: Client, indices: dict[str, int], chosen: list[int]
) -> None:
    named = {"match": {"name": {"exact": "lb_ctx_rx_pkt_counter"}}}
    sliced = {"match": {"indices": {"slices": [indices]}}}
    found = await client.metrics(metric_filter={"all_set": {"members": [named, sliced]}})
    assert list(found.get("lb_ctx_rx_pkt_counter", {})) == chosen


@pytest.mark.parametrize(
    ("split", "matches"),
    [
        ({"part": {"match": {"value": {"exact": "rx"}}}, "any": True}, True),
        ({"part": {"match": {"value": {"exact": "rx"}}}}, False),
        ({"part": {"match": {"index": 1}}, "any": True}, True),
        ({"part": {"match": {"index": 9}}, "any": True}, False),
        ({"part": {"match": {"value": {"exact": "tx"}}, "negated": True}}, True),
        (
            {
                "any": True,
                "part": {
                    "all_set": {"members": [{"match": {"index": 2}}, {"match": {"value": {"exact": "rx"}}}]}
                },
            },
            True,
        ),
        (
            {
                "any": True,
                "part": {
                    "all_set": {"members": [{"match": {"index": 1}}, {"match": {"value": {"exact": "rx"}}}]}
                },
            },
            False,
        ),
        ({"part": {"any_set": {"members": [{"match": {"value": {"prefix": "zz"}}}]}}, "any": True}, False),
        ({"pattern": "(", "any": True}, False),
    ],
)
async def test_names_are_split_and_their_parts_compared(
    client: Client, split: dict[str, Any], matches: bool
) -> None:
    """A filter that is not understood would choose every counter, and a clearing then empties them all."""
    name = {"match": {"name": {"split": {"pattern": "_"} | split}}}
    found = await client.metrics(metric_filter=name)
    assert ("lb_ctx_rx_pkt_counter" in found) is matches


async def test_statistics_have_the_names_that_are_read_and_clear_by_filter(client: Client) -> None:
    await test_rules_of_the_vectors_sent_as_a_batch_forward_the_vectors(client)
    metrics = await client.metrics()
    counters = client.pipeline.counters
    assert sum(metrics["lb_ctx_rx_pkt_counter"].values()) == sum(
        lb.rx_packets for lb in counters.lbs.values()
    )
    assert metrics["rx_rslt_counter"][13] == counters.tx_packets
    assert sum(metrics["rx_rslt_counter"].values()) <= counters.rx_packets
    assert sum(metrics["lb_mbr_tx_pkt_counter"].values()) == counters.tx_packets
    lb = next(iter(counters.lbs))
    named = {"match": {"name": {"exact": "lb_ctx_rx_pkt_counter"}}}
    sliced = {"match": {"indices": {"slices": [{"start": lb, "end": lb, "step": 1}]}}}
    chosen = {"metric_filter": {"all_set": {"members": [{"any_set": {"members": [named]}}, sliced]}}}
    assert await client.metrics(**chosen) == {"lb_ctx_rx_pkt_counter": {lb: counters.lbs[lb].rx_packets}}
    request = pb.PipelineStatsRequest(filters=pb.StatsFilters(**chosen))
    assert (await client.one("ClearPipelineStats", request)).error_code == pb.EC_OK
    after = await client.metrics()
    assert after["lb_ctx_rx_pkt_counter"][lb] == 0
    assert {k: v for k, v in after.items() if k != "lb_ctx_rx_pkt_counter"} == {
        k: v for k, v in metrics.items() if k != "lb_ctx_rx_pkt_counter"
    }
    await client.one("ClearPipelineStats", pb.PipelineStatsRequest())
    assert await client.metrics(non_zero=True) == {}
    assert counters.balance == 0


async def test_batch_of_other_items(client: Client) -> None:
    requests = [
        pb.BatchRequest(op=pb.BOP_GET, pipeline_info=pb.PipelineInfoRequest()),
        pb.BatchRequest(op=pb.BOP_GET, pipeline_stats=pb.PipelineStatsRequest()),
        pb.BatchRequest(op=pb.BOP_CLEAR, pipeline_stats=pb.PipelineStatsRequest()),
        pb.BatchRequest(op=pb.BOP_CLEAR, table=pb.TableRequest()),
        pb.BatchRequest(op=pb.BOP_GET, device_info=pb.DeviceInfoRequest()),
        pb.BatchRequest(op=pb.BOP_GET, server_status=pb.ServerStatusRequest()),
        pb.BatchRequest(op=pb.BOP_SET, table=pb.TableRequest()),
        pb.BatchRequest(op=pb.BOP_GET),
    ]
    responses = [r async for r in client.stub.Batch(iter(requests), metadata=TOKEN, timeout=60)]
    assert [r.error_code for r in responses] == [pb.EC_OK] * 6 + [
        pb.EC_UNKNOWN_BATCH_OP,
        pb.EC_UNKNOWN_BATCH_REQUEST,
    ]
    tables = {table.name: table for table in responses[0].pipeline_info.info.tables}
    assert tables["epoch_assign_table"].num_entries == 1024
    assert tables["epoch_assign_table"].priority_required


async def test_calls_without_the_token_are_refused(client: Client) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in client.stub.ClearTable(pb.TableRequest(), timeout=60):
            pass
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
