"""What the public control plane asks of a card beside its rules: configuration, all counters, debug flags."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from ejfat.control.pb import sn_cfg_v2_pb2 as cfg
from ejfat.control.pb import sn_cfg_v2_pb2_grpc as cfg_grpc
from ejfat.control.pb import sn_p4_v2_pb2 as p4
from ejfat.control.pb import sn_p4_v2_pb2_grpc as p4_grpc
from unit.ejfat.test_ejfat_p4_access import TOKEN, app_of, one


@pytest.fixture
async def channel() -> AsyncIterator[Any]:
    app = app_of(p4_token="word")
    await app.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{app.p4_port}") as channel:
        yield channel
    await app.stop()


async def test_card_keeps_what_the_public_control_plane_sets_and_names_the_mac(channel: Any) -> None:
    stub = cfg_grpc.SmartnicConfigStub(channel)

    async def ask(rpc: str, request: Any) -> Any:
        return await one(getattr(stub, rpc), request, metadata=TOKEN)

    info = await ask("GetDeviceInfo", cfg.DeviceInfoRequest(dev_id=-1))
    assert list(info.info.card.mac_addrs) == ["00:00:00:00:00:02"]
    wanted = cfg.SwitchConfig(
        ingress_selectors=[
            cfg.SwitchIngressSelector(index=n, intf="SW_INTF_PHYSICAL", dest="SW_DEST_APP") for n in (0, 1)
        ],
        egress_selectors=[cfg.SwitchEgressSelector(index=n, intf="SW_INTF_PHYSICAL") for n in (0, 1)],
        bypass_mode="SW_BYPASS_STRAIGHT",
    )
    assert (await ask("GetSwitchConfig", cfg.SwitchConfigRequest())).config != wanted
    assert (await ask("SetSwitchConfig", cfg.SwitchConfigRequest(config=wanted))).error_code == cfg.EC_OK
    assert (await ask("GetSwitchConfig", cfg.SwitchConfigRequest())).config == wanted
    function = cfg.HostFunctionDmaConfig(
        func_id=cfg.HostFunctionId(ftype="HOST_FUNC_PHYSICAL"), base_queue=1, num_queues=1
    )
    host = cfg.HostConfig(dma=cfg.HostDmaConfig(functions=[function], reset=True))
    for _ in range(2):  # a second time in place of the first, not beside it
        done = await ask("SetHostConfig", cfg.HostConfigRequest(host_id=1, config=host))
        assert done.error_code == cfg.EC_OK
    got = await ask("GetHostConfig", cfg.HostConfigRequest(host_id=1))
    assert list(got.config.dma.functions) == [function]
    assert not got.config.dma.reset
    port = await ask("GetPortConfig", cfg.PortConfigRequest(port_id=1))
    assert port.config.state == cfg.PORT_STATE_ENABLE
    assert (await ask("GetHostConfig", cfg.HostConfigRequest(host_id=7))).error_code == cfg.EC_INVALID_HOST_ID
    assert (await ask("SetPortConfig", cfg.PortConfigRequest())).error_code == cfg.EC_MISSING_PORT_CONFIG
    assert (
        await ask("GetDeviceInfo", cfg.DeviceInfoRequest(dev_id=3))
    ).error_code == cfg.EC_INVALID_DEVICE_ID
    request = cfg.PortConfigRequest(port_id=-1)
    both = [r.port_id async for r in stub.GetPortConfig(request, metadata=TOKEN, timeout=60)]
    assert both == [0, 1]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await one(stub.SetSwitchConfig, cfg.SwitchConfigRequest(config=wanted))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_counters_of_the_device_are_filtered_by_label_and_pattern(channel: Any) -> None:
    stub = p4_grpc.SmartnicP4Stub(channel)

    async def names(
        match: dict[str, Any], **values: Any
    ) -> dict[str, list[tuple[int, list[tuple[str, str]]]]]:
        filters = p4.StatsFilters(
            metric_filter=p4.StatsMetricFilter(match=p4.StatsMetricMatch(**match)), **values
        )
        reply = await one(stub.GetStats, p4.StatsRequest(filters=filters), metadata=TOKEN)
        assert reply.error_code == p4.EC_OK
        return {
            metric.name: [(v.index, [(one.key, one.value) for one in v.labels]) for v in metric.values]
            for metric in reply.stats.metrics
        }

    label = {"key": {"exact": "lb_id"}, "value": {"exact": "3"}}
    found = await names({"label": label}, with_labels=True)
    assert found["lb_ctx_rx_pkt_counter"] == [(3, [("lb_id", "3")])]
    assert not any(name.startswith("lb_mbr_") for name in found)
    assert set(await names({"name": {"regexp": {"pattern": "^lb_ctx_rx_v[23]_"}}})) == {
        "lb_ctx_rx_v2_counter",
        "lb_ctx_rx_v3_counter",
    }
    assert await names({"name": {"regexp": {"pattern": "(("}}}) == {}
    assert (await one(stub.ClearStats, p4.StatsRequest(), metadata=TOKEN)).error_code == p4.EC_OK
    wrong = await one(stub.GetStats, p4.StatsRequest(dev_id=5), metadata=TOKEN)
    assert wrong.error_code == p4.EC_INVALID_DEVICE_ID


async def test_debug_flags_are_kept_and_unknown_ones_refused(channel: Any) -> None:
    stub = p4_grpc.SmartnicP4Stub(channel)

    def request(enables: list[int], disables: list[int]) -> p4.ServerConfigRequest:
        debug = p4.ServerDebug(enables=enables, disables=disables)  # type: ignore[arg-type]
        return p4.ServerConfigRequest(config=p4.ServerConfig(debug=debug))

    await one(stub.SetServerConfig, request([1, 20], []), metadata=TOKEN)
    await one(stub.SetServerConfig, request([], [1]), metadata=TOKEN)
    kept = (await one(stub.GetServerConfig, p4.ServerConfigRequest(), metadata=TOKEN)).config.debug
    assert list(kept.enables) == [20]
    assert len(kept.disables) == 5
    refused = await one(stub.SetServerConfig, request([77], []), metadata=TOKEN)
    assert refused.error_code == p4.EC_SERVER_INVALID_DEBUG_FLAG
    batch = p4.BatchRequest(op=p4.BOP_GET, server_config=p4.ServerConfigRequest())
    (reply,) = [r async for r in stub.Batch(iter([batch]), metadata=TOKEN, timeout=60)]
    assert list(reply.server_config.config.debug.enables) == [20]
