"""The `sn_cfg.v2.SmartnicConfig` service, by which the public control plane sets up a card and learns its MAC address.

There is no card: what is set is kept and read back, so that a control plane that compares finds what it wants.

Source: the public interface, and the calls of the public control plane, which reads and writes the switch, two hosts
    and two ports in each period.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from ejfat.control.grpc.serving import Context, require_token
from ejfat.control.pb import sn_cfg_v2_pb2 as pb
from ejfat.control.pb import sn_cfg_v2_pb2_grpc as pb_grpc

_PLACES = (0, 1)
"""Hosts, and ports, of the card."""


def _get(kind: str) -> Callable[..., AsyncIterator[Any]]:
    """Return the RPC that reads the configuration of a kind: Switch, Host or Port."""

    async def rpc(service: SmartnicConfigService, request: Any, context: Context) -> AsyncIterator[Any]:
        await require_token(context, service._token)
        for place, fields in _places(kind, request):
            config = service._kept.get((kind, place))
            code = service._fault(kind, request.dev_id, place)
            yield getattr(pb, f"{kind}ConfigResponse")(
                error_code=code, config=config if code == pb.EC_OK else None, **fields
            )

    return rpc


def _set(kind: str) -> Callable[..., AsyncIterator[Any]]:
    """Return the RPC that changes the configuration of a kind."""

    async def rpc(service: SmartnicConfigService, request: Any, context: Context) -> AsyncIterator[Any]:
        await require_token(context, service._token)
        for place, fields in _places(kind, request):
            code = service._fault(kind, request.dev_id, place)
            if code == pb.EC_OK and not request.HasField("config"):
                code = getattr(pb, f"EC_MISSING_{kind.upper()}_CONFIG")
            if code == pb.EC_OK:
                service._keep(kind, place, request.config)
            yield getattr(pb, f"{kind}ConfigResponse")(error_code=code, **fields)

    return rpc


def _places(kind: str, request: Any) -> list[tuple[int, dict[str, int]]]:
    """Return the places that a request is for, each with its field in the response; -1 stands for all."""
    if kind == "Switch":
        return [(0, {})]
    name = f"{kind.lower()}_id"
    asked = getattr(request, name)
    return [(place, {name: max(place, 0)}) for place in (_PLACES if asked == -1 else (asked,))]


class SmartnicConfigService(pb_grpc.SmartnicConfigServicer):  # type: ignore[misc]
    """The configuration of device 0."""

    def __init__(self, token: str, mac: str, version: str) -> None:
        """Args:  token: the bearer token that it requires; empty: none. mac, version: of the load balancer."""
        self._token = token
        self._mac = mac
        self._version = version
        self._kept: dict[tuple[str, int], Any] = {("Switch", 0): pb.SwitchConfig()}
        for place in _PLACES:
            self._kept["Host", place] = pb.HostConfig(dma=pb.HostDmaConfig())
            self._kept["Port", place] = pb.PortConfig(
                state=pb.PORT_STATE_ENABLE, fec=pb.PORT_FEC_NONE, loopback=pb.PORT_LOOPBACK_NONE
            )

    async def GetDeviceInfo(self, request: pb.DeviceInfoRequest, context: Context) -> AsyncIterator[Any]:
        await require_token(context, self._token)
        version = self._version
        env = pb.DeviceBuildEnvironment(hw_version="none", fw_version=version, sw_version=version)
        info = pb.DeviceInfo(
            pci=pb.DevicePciInfo(bus_id="none"),
            build=pb.DeviceBuildInfo(env=env),
            card=pb.DeviceCardInfo(name="opavnic", mac_addrs=[self._mac]),
        )
        code = self._fault("Switch", request.dev_id, 0)
        yield pb.DeviceInfoResponse(error_code=code, info=info if code == pb.EC_OK else None)

    GetSwitchConfig, SetSwitchConfig = _get("Switch"), _set("Switch")
    GetHostConfig, SetHostConfig = _get("Host"), _set("Host")
    GetPortConfig, SetPortConfig = _get("Port"), _set("Port")

    def _fault(self, kind: str, dev_id: int, place: int) -> pb.ErrorCode:
        if dev_id not in (-1, 0):
            return pb.EC_INVALID_DEVICE_ID
        if (kind, place) in self._kept:
            return pb.EC_OK
        return pb.EC_INVALID_HOST_ID if kind == "Host" else pb.EC_INVALID_PORT_ID

    def _keep(self, kind: str, place: int, given: Any) -> None:
        """Keep what is set: a switch whole; of a port what is not 0; of a host the functions that are given."""
        kept = self._kept[kind, place]
        if kind == "Switch":
            kept.CopyFrom(given)
        elif kind == "Port":
            kept.MergeFrom(given)
        else:
            named = {one.func_id.SerializeToString(deterministic=True) for one in given.dma.functions}
            stay = [
                one
                for one in kept.dma.functions
                if not given.dma.reset and one.func_id.SerializeToString(deterministic=True) not in named
            ]
            del kept.dma.functions[:]
            kept.dma.functions.extend([*stay, *given.dma.functions])
