"""The `sn_cfg.v2.SmartnicConfig` service, by which the public control plane sets up a card and learns its MAC address.

There is no card: what is set is kept and read back, so that a control plane that compares finds what it wants.

Source: the public interface, and the calls of the public control plane, which reads and writes the switch, two hosts
    and two ports in each period.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from ejfat.control.grpc.serving import require_token
from ejfat.control.pb import sn_cfg_v2_pb2 as pb
from ejfat.control.pb import sn_cfg_v2_pb2_grpc as pb_grpc

Context = grpc.aio.ServicerContext[Any, Any]
_PLACES = (0, 1)
"""Hosts, and ports, of the card."""


@dataclass(frozen=True, slots=True)
class CfgSurroundings:
    """The functions and values that the service needs from its environment."""

    now: Callable[[], float]
    """Unix time in seconds."""
    token: str
    """The bearer token that it requires; empty: none."""
    mac: str
    """The MAC address of the load balancer."""
    version: str
    """Of this program."""


@dataclass(slots=True)
class _Kept:
    """The configuration as it was set."""

    switch: pb.SwitchConfig = field(default_factory=pb.SwitchConfig)
    hosts: dict[int, pb.HostConfig] = field(
        default_factory=lambda: {place: pb.HostConfig(dma=pb.HostDmaConfig()) for place in _PLACES}
    )
    ports: dict[int, pb.PortConfig] = field(
        default_factory=lambda: {
            place: pb.PortConfig(
                state=pb.PORT_STATE_ENABLE, fec=pb.PORT_FEC_NONE, loopback=pb.PORT_LOOPBACK_NONE
            )
            for place in _PLACES
        }
    )


class SmartnicConfigService(pb_grpc.SmartnicConfigServicer):  # type: ignore[misc]
    """The configuration of device 0."""

    def __init__(self, world: CfgSurroundings) -> None:
        self._world = world
        self._started = world.now()
        self._kept = _Kept()

    async def GetDeviceInfo(self, request: pb.DeviceInfoRequest, context: Context) -> AsyncIterator[Any]:
        await require_token(context, self._world.token)
        if not _is_ours(request.dev_id):
            yield pb.DeviceInfoResponse(error_code=pb.EC_INVALID_DEVICE_ID)
            return
        version = self._world.version
        env = pb.DeviceBuildEnvironment(hw_version="none", fw_version=version, sw_version=version)
        info = pb.DeviceInfo(
            pci=pb.DevicePciInfo(bus_id="none"),
            build=pb.DeviceBuildInfo(env=env),
            card=pb.DeviceCardInfo(name="opavnic", mac_addrs=[self._world.mac]),
        )
        yield pb.DeviceInfoResponse(error_code=pb.EC_OK, info=info)

    async def GetSwitchConfig(self, request: pb.SwitchConfigRequest, context: Context) -> AsyncIterator[Any]:
        await require_token(context, self._world.token)
        if _is_ours(request.dev_id):
            yield pb.SwitchConfigResponse(error_code=pb.EC_OK, config=self._kept.switch)
        else:
            yield pb.SwitchConfigResponse(error_code=pb.EC_INVALID_DEVICE_ID)

    async def SetSwitchConfig(self, request: pb.SwitchConfigRequest, context: Context) -> AsyncIterator[Any]:
        await require_token(context, self._world.token)
        code = _fault(request, pb.EC_MISSING_SWITCH_CONFIG)
        if code == pb.EC_OK:
            self._kept.switch = request.config
        yield pb.SwitchConfigResponse(error_code=code)

    async def GetHostConfig(self, request: pb.HostConfigRequest, context: Context) -> AsyncIterator[Any]:
        await require_token(context, self._world.token)
        if not _is_ours(request.dev_id):
            yield pb.HostConfigResponse(error_code=pb.EC_INVALID_DEVICE_ID)
            return
        for place in _chosen(request.host_id):
            config = self._kept.hosts.get(place)
            code = pb.EC_INVALID_HOST_ID if config is None else pb.EC_OK
            yield pb.HostConfigResponse(error_code=code, host_id=max(place, 0), config=config)

    async def SetHostConfig(self, request: pb.HostConfigRequest, context: Context) -> AsyncIterator[Any]:
        await require_token(context, self._world.token)
        for place in _chosen(request.host_id):
            code = _fault(request, pb.EC_MISSING_HOST_CONFIG)
            config = self._kept.hosts.get(place)
            if code == pb.EC_OK and config is None:
                code = pb.EC_INVALID_HOST_ID
            if code == pb.EC_OK and config is not None:
                _set_functions(config.dma, request.config.dma)
            yield pb.HostConfigResponse(error_code=code, host_id=max(place, 0))

    async def GetPortConfig(self, request: pb.PortConfigRequest, context: Context) -> AsyncIterator[Any]:
        await require_token(context, self._world.token)
        if not _is_ours(request.dev_id):
            yield pb.PortConfigResponse(error_code=pb.EC_INVALID_DEVICE_ID)
            return
        for place in _chosen(request.port_id):
            config = self._kept.ports.get(place)
            code = pb.EC_INVALID_PORT_ID if config is None else pb.EC_OK
            yield pb.PortConfigResponse(error_code=code, port_id=max(place, 0), config=config)

    async def SetPortConfig(self, request: pb.PortConfigRequest, context: Context) -> AsyncIterator[Any]:
        await require_token(context, self._world.token)
        for place in _chosen(request.port_id):
            code = _fault(request, pb.EC_MISSING_PORT_CONFIG)
            config = self._kept.ports.get(place)
            if code == pb.EC_OK and config is None:
                code = pb.EC_INVALID_PORT_ID
            if code == pb.EC_OK and config is not None:
                config.MergeFrom(request.config)  # a value of 0 leaves what is there
            yield pb.PortConfigResponse(error_code=code, port_id=max(place, 0))

    async def GetServerStatus(self, request: pb.ServerStatusRequest, context: Context) -> AsyncIterator[Any]:
        await require_token(context, self._world.token)
        status = pb.ServerStatus()
        status.start_time.FromNanoseconds(round(self._started * 1e9))
        status.up_time.FromNanoseconds(round((self._world.now() - self._started) * 1e9))
        yield pb.ServerStatusResponse(error_code=pb.EC_OK, status=status)


def _is_ours(dev_id: int) -> bool:
    return dev_id in (-1, 0)


def _fault(
    request: pb.SwitchConfigRequest | pb.HostConfigRequest | pb.PortConfigRequest, missing: pb.ErrorCode
) -> pb.ErrorCode:
    if not _is_ours(request.dev_id):
        return pb.EC_INVALID_DEVICE_ID
    return pb.EC_OK if request.HasField("config") else missing


def _chosen(place: int) -> Iterator[int]:
    yield from _PLACES if place == -1 else (place,)


def _set_functions(kept: pb.HostDmaConfig, given: pb.HostDmaConfig) -> None:
    """Replace the functions that were given, and with `reset` all others too."""
    named = {one.func_id.SerializeToString(deterministic=True) for one in given.functions}
    stay = [one for one in kept.functions if one.func_id.SerializeToString(deterministic=True) not in named]
    del kept.functions[:]
    kept.functions.extend([*([] if given.reset else stay), *given.functions])
