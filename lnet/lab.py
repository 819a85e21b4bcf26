"""LNet in a running lab: a node on each host with a section `lnet`, and the routes of the control API.

POST /lnet/{host}/{command}    a command of lnetctl; returns {"output": YAML, "exit": 0 or 1}
POST /lnet-send, /lnet-selftest  messages from one host to another; return plain data
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from aiohttp import web

from hfi_sim.did_you_mean import nearest
from hfi_sim.errors import InputError
from hfi_sim.hfi import HfiPort
from lnet.config import LndConfig
from lnet.dlc import error_yaml
from lnet.errors import CommandError, NidError
from lnet.host import LnetHost
from lnet.networks import parse_networks
from lnet.nid import Nid
from lnet.node import Interface
from lnet.section import LnetModel, read_targets
from lnet.tx import TxKind
from opavnic.errors import OpavnicError
from opavnic.world.json_body import json_object
from opavnic.world.part import Asked, PartWorld, RunningPart

_ROUTES: Final = ("/lnet/{host}/{command}", "/lnet-send", "/lnet-selftest")

_T = TypeVar("_T")


class LnetLab(RunningPart):
    """The LNet nodes of a lab; they run until the context is left."""

    def __init__(self, world: PartWorld, asked: Asked) -> None:
        """Start LNet on every host that has a section for it.

        Raises:  ConfigError: a targets file cannot be read.
        """
        self.hosts: dict[str, LnetHost] = {}
        self._world = world
        self._ports: dict[IPv4Address, HfiPort] = {}
        interfaces = {name: self._interfaces(name, section) for name, section in asked.hosts.items()}
        try:
            for name, section in asked.hosts.items():
                self.hosts[name] = self._start(name, section, interfaces[name], asked.directory)
        except BaseException:
            self._shutdown()
            raise

    def __enter__(self) -> Self:
        """Return the nodes, which are already running."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the ports and fail all unfinished commands."""
        self._shutdown()

    def _shutdown(self) -> None:
        with contextlib.ExitStack() as stack:  # shuts down every host even if one fails
            for host in self.hosts.values():
                stack.callback(host.shutdown)

    def _interfaces(self, name: str, section: LnetModel) -> list[Interface]:
        interfaces = []
        for index, (text, port) in enumerate(
            zip(section.addresses, self._world.hosts[name].ports, strict=False)
        ):
            addr = IPv4Address(text)
            self._ports[addr] = port
            self._world.add_pkey(port, section.pkey)
            interfaces.append(Interface(f"ib{index}", addr, port))
        return interfaces

    def _start(self, name: str, section: LnetModel, interfaces: list[Interface], directory: Path) -> LnetHost:
        host = LnetHost(
            name,
            interfaces,
            self.resolve,
            self._world.clock,
            self._world.rng(name),
            stamp=time.time_ns() // 1000,
            config=LndConfig(
                timeout_s=section.timeout,
                announce=section.announce,
                weighted=section.weighted,
                idle_timeout_s=section.idle_timeout,
            ),
            pkey=section.pkey,
        )
        for target in read_targets(section, directory):
            host.node.lnd.targets.put(target)
        for group in parse_networks(section.networks):
            host.node.add_net(group)
        return host

    def resolve(self, addr: IPv4Address) -> int | None:
        """Return the LID of the port with address `addr`, or None."""
        port = self._ports.get(addr)
        return port.lid if port is not None and port.lid else None

    def host(self, name: str) -> LnetHost:
        """Return the node of a host.

        Raises:  InputError: the host has no LNet.
        """
        if name not in self.hosts:
            raise InputError(f'host "{name}" has no LNet ({nearest(name, self.hosts)})')
        return self.hosts[name]

    # --- the control API -----------------------------------------------------------------------------------

    def routes(self) -> list[web.RouteDef]:
        if not self.hosts:
            return [web.post(path, _without_lnet) for path in _ROUTES]
        handlers = (self.command, self.send, self.selftest)
        return [web.post(path, handler) for path, handler in zip(_ROUTES, handlers, strict=True)]

    async def command(self, request: web.Request) -> web.Response:
        """Run a command of lnetctl on one host."""
        host = self.host(request.match_info["host"])
        body = await json_object(request)
        verb, noun = str(body.get("verb", "")), str(body.get("noun", ""))
        try:
            output, code = await host.execute(request.match_info["command"], _arguments(body))
        except CommandError as error:
            output, code = error_yaml(verb, noun, error), 1
        return web.json_response({"output": output, "exit": code})

    async def send(self, request: web.Request) -> web.Response:
        """Send messages one after the other; respond with the route of each."""
        body = await json_object(request)
        host = self.host(_field(body, "host", str))
        try:
            nid = self._destination(body)
            sent = await host.send(nid, count=_field(body, "count", int), size=_field(body, "size", int))
        except CommandError as error:
            return _refused("send", error)
        return web.json_response({"data": sent})

    async def selftest(self, request: web.Request) -> web.Response:
        """Load the routes between two hosts; respond with the throughput."""
        body = await json_object(request)
        host = self.host(_field(body, "host", str))
        try:
            result = await host.selftest(
                self._destination(body),
                size=_field(body, "size", int),
                concurrency=_field(body, "concurrency", int),
                seconds=_field(body, "seconds", float),
                kind=TxKind(_field(body, "kind", str)),
            )
        except CommandError as error:
            return _refused("selftest", error)
        return web.json_response({"data": result.as_json()})

    def _destination(self, body: dict[str, Any]) -> Nid:
        """Return the NID that `to` names: a NID itself, or the first NID of a host."""
        to = _field(body, "to", str)
        if "@" not in to:
            return self.host(to).first_nid()
        try:
            return Nid.parse(to)
        except NidError as error:
            raise OpavnicError(str(error)) from error


def _arguments(body: dict[str, Any]) -> dict[str, Any]:
    arguments = body.get("args", {})
    if not isinstance(arguments, dict):
        raise OpavnicError('"args" is not a JSON object')
    return arguments


def _field(body: dict[str, Any], key: str, kind: Callable[[Any], _T]) -> _T:
    """Return one value of a request.

    Raises:  OpavnicError: it is missing or has the wrong type.
    """
    try:
        return kind(body[key])
    except (KeyError, TypeError, ValueError):
        raise OpavnicError(f'"{key}" is missing or wrong: {body.get(key)!r}') from None


def _refused(verb: str, error: CommandError) -> web.Response:
    return web.json_response({"output": error_yaml(verb, "lnet", error), "exit": 1})


async def _without_lnet(_: web.Request) -> web.Response:
    raise OpavnicError("no host of this lab has LNet; add a section lnet to a host in the lab file")
