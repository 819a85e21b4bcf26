"""LNet in a running lab: a node on each host with a section `lnet`, and the routes of the control API."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from aiohttp import web
from pydantic import Field

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import nearest
from hfi_sim.nodes.hfi import HfiPort
from lnet.base.errors import CommandError, NidError
from lnet.base.nid import Nid
from lnet.settings.networks import parse_networks
from lnet.settings.section import LnetModel, read_targets
from lnet.settings.yaml_text import errors_yaml
from opavnic.base.errors import OpavnicError
from opavnic.base.state import StateModel
from opavnic.world.json_body import json_answer, json_object
from opavnic.world.openapi import Api, declared_in, declared_routes
from opavnic.world.part import PartRequest, PartWorld, RunningPart

if TYPE_CHECKING:  # a lab without LNet imports none of its nodes: that would be a third of its start
    from lnet.host.host import LnetHost
    from lnet.node.node import LnetInterface

log = logging.getLogger("lnet.host.lab")

EXIT_FAILED: Final = 1
_T = TypeVar("_T")


class CommandReply(StateModel):
    """What a command of lnetctl prints."""

    output: str
    """YAML."""
    errors: str
    """YAML; empty if it has succeeded."""
    exit: int
    """Its exit status."""


class SentMessage(StateModel):
    """One message that was sent; what follows the status is there if it fits that."""

    message: int
    """Its number, from 1."""
    nid: str
    status: Literal["delivered", "failed"]
    dev: str = ""
    local_ip: str = Field("", validation_alias="local ip", serialization_alias="local ip")
    remote_ip: str = Field("", validation_alias="remote ip", serialization_alias="remote ip")
    attempts: int = 0
    errno: int = 0
    descr: str = ""


class MessagesSent(StateModel):
    """Messages in the order in which they were sent."""

    data: list[SentMessage]


class RouteLoad(StateModel):
    """The traffic of one route."""

    route: str
    messages: int
    bytes: int
    gbps: float


class Failure(StateModel):
    """Messages that failed for one reason."""

    count: int
    reason: str


class Load(StateModel):
    """The throughput between two hosts."""

    seconds: float
    messages: int
    failed: int
    bytes: int
    gbps: float
    routes: list[RouteLoad]
    failures: list[Failure] = Field(default_factory=list)


class LoadReply(StateModel):
    """The result of a load test."""

    data: Load


class LnetLab(RunningPart):
    """The LNet nodes of a lab; they run until the context is left."""

    def __init__(self, world: PartWorld, asked: PartRequest) -> None:
        """Start LNet on every host that has a section for it.

        Raises:  LnetConfigError: a targets file cannot be read.
        """
        self.hosts: dict[str, LnetHost] = {}
        self._world = world
        self._asked = asked
        self._starts = 0
        self._stamp = 0
        self._ports: dict[IPv4Address, HfiPort] = {}
        self._interfaces = {name: self._make_interfaces(name, asked.hosts[name]) for name in asked.hosts}
        self._unsubscribe = (world.on_crash(self._crashed), world.on_restart(self._restarted))
        try:
            for name in asked.hosts:
                self.hosts[name] = self._start(name)
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
            for unsubscribe in self._unsubscribe:
                stack.callback(unsubscribe)
            for host in self.hosts.values():
                stack.callback(host.shutdown)

    def _crashed(self, name: str) -> None:
        if name in self.hosts:
            log.info("[%s] LNet goes down with its host", name)
            self.hosts[name].crash()

    def _restarted(self, name: str) -> None:
        """Start LNet as it says in the lab file; what lnetctl changed is lost, as in a reboot."""
        if name in self.hosts:
            self.hosts[name] = self._start(name)
            log.info("[%s] LNet starts as incarnation %d", name, self.hosts[name].node.lnd.stamp)

    def _make_interfaces(self, name: str, section: LnetModel) -> list[LnetInterface]:
        from lnet.node.node import LnetInterface

        interfaces = []
        for index, (text, port) in enumerate(
            zip(section.addresses, self._world.hosts[name].ports, strict=False)
        ):
            addr = IPv4Address(text)
            self._ports[addr] = port
            self._world.add_pkey(port, section.pkey)
            interfaces.append(LnetInterface(f"ib{index}", addr, port))
        return interfaces

    def _start(self, name: str) -> LnetHost:
        from lnet.host.host import LnetHost

        section: LnetModel = self._asked.hosts[name]
        self._starts += 1
        self._stamp = max(self._stamp + 1, time.time_ns() // 1000)
        return LnetHost(
            name,
            self._interfaces[name],
            self.resolve,
            self._world.clock,
            self._world.rng(f"{name} {self._starts}"),
            owner_of=self.owner_of,
            bonding_of=section.bonding_of,
            stamp=self._stamp,
            config=section.config(),
            pkey=section.pkey,
            networks=parse_networks(section.networks),
            targets=read_targets(section, self._asked.directory),
        )

    def resolve(self, addr: IPv4Address) -> int | None:
        """Return the LID of the port with address `addr`, or None."""
        port = self._ports.get(addr)
        return port.lid if port is not None and port.lid else None

    def owner_of(self, addr: IPv4Address) -> str | None:
        """Return the host whose HFI port has address `addr`, or None."""
        return next(
            (name for name, ports in self._interfaces.items() if any(port.addr == addr for port in ports)),
            None,
        )

    def status(self) -> dict[str, Any]:
        return {name: host.said() for name, host in self.hosts.items()}

    def detail(self) -> dict[str, Any]:
        return {"hosts": {name: host.detail() for name, host in self.hosts.items()}}

    def host(self, name: str) -> LnetHost:
        """Return the node of a host. Raises: InputError: the host has no LNet."""
        if name not in self.hosts:
            raise InputError(f'host "{name}" has no LNet ({nearest(name, self.hosts)})')
        return self.hosts[name]

    # --- the control API -----------------------------------------------------------------------------------

    def routes(self) -> list[web.RouteDef]:
        if not self.hosts:
            return [said.to(_without_lnet) for said in declared_in(type(self)).values()]
        return declared_routes(self)

    @Api(
        "POST /lnet/{host}/{command}",
        "Run a command of lnetctl on a host",
        "what it prints, and its exit status",
        CommandReply,
        body={
            "verb": "string: for messages",
            "noun": "string: for messages",
            "args": "object: the arguments of the command, by name",
        },
    )
    async def command(self, request: web.Request) -> web.Response:
        """Run a command of lnetctl on one host."""
        host = self.host(request.match_info["host"])
        body = await json_object(request)
        verb, noun = str(body.get("verb", "")), str(body.get("noun", ""))
        try:
            answer = await host.execute(request.match_info["command"], _arguments(body))
        except CommandError as error:
            return await _refused(verb, noun, error, error.exit)
        errors = errors_yaml([(verb, noun, error) for error in answer.errors])
        return await json_answer(CommandReply(output=answer.output, errors=errors, exit=answer.exit))

    @Api(
        "POST /lnet-send",
        "Send messages one after the other",
        "the route of each",
        MessagesSent | CommandReply,
        body={
            "host": "string: the sender",
            "to": "string: a host or NID",
            "count": "integer: how many",
            "size": "integer: bytes",
        },
    )
    async def send(self, request: web.Request) -> web.Response:
        """Send messages one after the other; respond with the route of each."""
        body = await json_object(request)
        host = self.host(_field(body, "host", str))
        try:
            nid = self._destination(body)
            sent = await host.send(nid, count=_field(body, "count", int), size=_field(body, "size", int))
        except CommandError as error:
            return await _refused("send", "lnet", error, EXIT_FAILED)
        return await json_answer(MessagesSent.model_validate({"data": sent}))

    @Api(
        "POST /lnet-selftest",
        "Load the routes between two hosts",
        "the throughput",
        LoadReply | CommandReply,
        body={
            "host": "string: the sender",
            "to": "string: a host or NID",
            "size": "integer: bytes",
            "concurrency": "integer: messages in flight",
            "seconds": "number: how long",
            "kind": "string: kind of a message",
        },
    )
    async def selftest(self, request: web.Request) -> web.Response:
        """Load the routes between two hosts; respond with the throughput."""
        from lnet.objects.stats import TxKind

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
            return await _refused("selftest", "lnet", error, EXIT_FAILED)
        return await json_answer(LoadReply.model_validate({"data": result.as_json()}))

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
    """Return one value of a request. Raises: OpavnicError: it is missing or has the wrong type."""
    try:
        return kind(body[key])
    except (KeyError, TypeError, ValueError):
        raise OpavnicError(f'"{key}" is missing or wrong: {body.get(key)!r}') from None


async def _refused(verb: str, noun: str, error: CommandError, code: int) -> web.Response:
    errors = errors_yaml([(verb, noun, error)])
    return await json_answer(CommandReply(output="", errors=errors, exit=code))


async def _without_lnet(_: web.Request) -> web.Response:
    raise OpavnicError("no host of this lab has LNet; add a section lnet to a host in the lab file")
