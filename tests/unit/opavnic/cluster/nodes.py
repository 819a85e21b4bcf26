"""Nodes with real Zenoh sessions on the loopback, and the raw sessions of members that do not keep to the rules."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zenoh

from opavnic.cluster.protocol.membership import NodeName, NodeState
from opavnic.cluster.protocol.zenoh_config import Address, SessionPlan, config
from opavnic.cluster.zenoh.credentials import load_credentials
from opavnic.cluster.zenoh.transport import ZenohTransport

GETS_IN_S = 60.0
"""How long a node that is to get in may take, on a busy machine; who is to be kept out tries for less."""


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Events:
    """What a transport told, and a way to wait for it."""

    nodes: list[tuple[str, NodeState | None]] = field(default_factory=list)
    on_join: Callable[[NodeName], object] = lambda _: None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self, transport: ZenohTransport) -> Events:
        def on_node(name: NodeName, state: NodeState | None) -> None:
            self.nodes.append((name, state))
            if state is not None:
                self.on_join(name)
            self._changed.set()

        transport.on_node = on_node
        return self

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something that one of the callbacks brings about."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def saw(self, name: str, is_there: bool = True) -> bool:
        return any(one == name and (state is not None) == is_there for one, state in self.nodes)


def plan(name: str, port: int, *, joins: bool, folder: Path | None = None, **more: Any) -> SessionPlan:
    proto = "tcp" if folder is None else "tls"
    own = Address.parse(f"{proto}/127.0.0.1:{0 if joins else port}", is_listen=True)
    join = (Address.parse(f"{proto}/127.0.0.1:{port}"),) if joins else ()
    credentials = None if folder is None else load_credentials(folder)
    return SessionPlan(
        NodeName(name), (own,), join, credentials, join_timeout_s=more.pop("join_timeout_s", 60.0), **more
    )


@asynccontextmanager
async def coordinator(
    port: int, folder: Path | None = None, **more: Any
) -> AsyncIterator[tuple[ZenohTransport, Events]]:
    digest = more.pop("digest", "-")
    one = ZenohTransport(plan("c", port, joins=False, folder=folder, **more), digest)
    events = Events().listen(one)
    await one.start()
    try:
        yield one, events
    finally:
        await one.stop()


@asynccontextmanager
async def member(
    name: str, port: int, folder: Path | None = None, **more: Any
) -> AsyncIterator[tuple[ZenohTransport, Events]]:
    digest = more.pop("digest", "-")
    more.setdefault("join_timeout_s", GETS_IN_S)
    one = ZenohTransport(plan(name, port, joins=True, folder=folder, **more), digest)
    events = Events().listen(one)
    await one.start()
    try:
        yield one, events
    finally:
        await one.stop()


@asynccontextmanager
async def raw_session(wanted: dict[str, Any]) -> AsyncIterator[zenoh.Session]:
    session = await asyncio.to_thread(zenoh.open, zenoh.Config.from_json5(json.dumps(wanted)))
    try:
        yield session
    finally:
        await asyncio.to_thread(session.close)


def hostile(one: SessionPlan) -> dict[str, Any]:
    """Return the configuration of a member that has its credentials and keeps none of its own rules."""
    wanted = config(one, 5)
    del wanted["access_control"]
    return wanted
