"""Who may program the tables over P4, and what a foreign control plane and ours do to each other."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import pytest

from ejfat.base.errors import BadRequestError, ControlError
from ejfat.control.members import Worker
from ejfat.control.pb import sn_p4_v2_pb2 as pb
from ejfat.control.pb import sn_p4_v2_pb2_grpc as pb_grpc
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.tables.schema import Dialect
from unit.ejfat.pipelines import entries

LB, SENDER = ip_address("10.0.0.1"), ip_address("10.0.0.2")
TOKEN = (("authorization", "Bearer word"),)
CLEAR = pb.TableRequest()


def app_of(
    listen: str = "127.0.0.1:0", state: Path | None = None, *, with_v1: bool = True, **p4: Any
) -> LbApp:
    plane = PlaneConfig(mac=2, instances=(InstanceAddresses(LB),), with_v1=with_v1)
    values = {"p4_listen": listen} | p4
    return LbApp(AppConfig(plane, "127.0.0.1:0", state=state, period_s=60, **values), lambda frame: None)


def reserve(app: LbApp) -> None:
    app.reserve("run", [SENDER])
    worker = Worker("w", ip_address("10.0.0.3"), 5000, mac=3)
    app.plane.program(app.plane.get("1").balancer.register(worker, app._now())[1])
    app.advance()


@asynccontextmanager
async def started(app: LbApp) -> AsyncIterator[Any]:
    await app.start()
    try:
        listen = app.config.p4_listen
        async with grpc.aio.insecure_channel(
            listen if listen.startswith("unix:") else f"127.0.0.1:{app.p4_port}"
        ) as channel:
            yield pb_grpc.SmartnicP4Stub(channel)
    finally:
        await app.stop()


async def one(call: Callable[..., Any], request: Any, **values: Any) -> Any:
    (response,) = [r async for r in call(request, timeout=60, **values)]
    return response


def test_p4_without_a_token_is_refused_unless_it_is_opened() -> None:
    with pytest.raises(BadRequestError, match=r"127\.0\.0\.1:0.*anyone could program the tables.*--p4-open"):
        app_of()
    app_of(p4_token="word")
    app_of(p4_open=True)


async def test_unix_socket_without_a_token_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "p4.sock"
    async with started(app_of(f"unix:{path}")) as stub:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert (await one(stub.ClearTable, CLEAR)).error_code == pb.EC_OK


async def test_strangers_clear_is_refused_and_the_tables_stay() -> None:
    app = app_of(p4_token="word")
    async with started(app) as stub:
        reserve(app)
        before = {table.spec.name: len(table) for _, table in app.pipeline.tables}
        for metadata in (None, (("authorization", "Bearer guess"),)):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await one(stub.ClearTable, CLEAR, metadata=metadata)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert {table.spec.name: len(table) for _, table in app.pipeline.tables} == before


async def test_foreign_control_plane_cannot_touch_the_tables_while_an_instance_is_reserved_here() -> None:
    app = app_of(p4_token="word")
    async with started(app) as stub:
        reserve(app)
        before = {table.spec.name: len(table) for _, table in app.pipeline.tables}
        rules = pb.TableRuleRequest(rules=[pb.TableRule(table_name="mac_dst_filter_table")])
        batches = [
            pb.BatchRequest(op=pb.BOP_CLEAR, table=CLEAR),
            pb.BatchRequest(op=pb.BOP_INSERT, table_rule=rules),
            pb.BatchRequest(op=pb.BOP_DELETE, table_rule=rules),
        ]
        calls = [
            (stub.ClearTable, CLEAR),
            (stub.InsertTableRule, rules),
            (stub.DeleteTableRule, rules),
            *((stub.Batch, iter([batch])) for batch in batches),
        ]
        for call, request in calls:
            with pytest.raises(grpc.aio.AioRpcError, match="reserved here") as caught:
                await one(call, request, metadata=TOKEN)
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        info = await one(stub.GetPipelineInfo, pb.PipelineInfoRequest(), metadata=TOKEN)
        assert info.error_code == pb.EC_OK, "looking is free"
        assert {table.spec.name: len(table) for _, table in app.pipeline.tables} == before
        assert app.status()["tables"] == "own"


async def test_after_a_foreign_control_plane_has_programmed_the_tables_nothing_is_reserved_here() -> None:
    app = app_of(p4_token="word")
    async with started(app) as stub:
        assert (await one(stub.ClearTable, CLEAR, metadata=TOKEN)).error_code == pb.EC_OK
        assert app.status()["tables"] == "foreign"
        with pytest.raises(ControlError, match="a foreign control plane programs the tables"):
            app.reserve("run", [SENDER])
        assert entries(app.pipeline.tables, Dialect.V23) == 0


async def test_tables_are_free_again_when_the_last_reservation_ends() -> None:
    app = app_of(p4_open=True)
    async with started(app) as stub:
        reserve(app)
        app.plane.free(app.plane.get("1"))
        assert (await one(stub.ClearTable, CLEAR)).error_code == pb.EC_OK


def test_version_1_off_after_a_restart_leaves_none_of_its_tables(tmp_path: Path) -> None:
    for with_v1 in (True, False, True):
        app = app_of("", tmp_path / "state", with_v1=with_v1)
        app.program()
        if not app.plane.reservations:
            reserve(app)
        app.advance()
        epochs = app.pipeline.tables.v1["epoch_assign_table"]
        assert (entries(app.pipeline.tables, Dialect.V1) > 0, len(epochs) > 0) == (with_v1, with_v1)
        app._save()
        assert app._store is not None
        app._store.close()
