"""An Ethernet Manager as a program of its own, over the raw MAD socket of a fabric: something to kill.

    python em_process.py SOCKET DATABASE PORTS

PORTS is JSON, a list of the ports that are in service. It says "clean" once it has converged and found nothing to
differ, and goes on until its stdin ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from hfi_sim.management.mad.agents import AgentHandler, AgentRegistration, Done, MadRequest
from hfi_sim.wire.mad.header import Mad, Method
from opavnic.management.mad_frames import MadMessage, MessageReader, Outcome
from vema.em.core.virtual_switches import Group
from vema.em.desired.desired import parse_config
from vema.em.desired.ports import PortFacts
from vema.em.service.service import EthernetService
from vema.em.store.database import Store

CONFIG = {
    "mac": "learn",
    "polling": {"interval": "1s"},
    "vesws": [
        {"id": 2, "name": "blue", "pkey": 0x8002},
        {"id": 3, "name": "red", "pkey": 0x8003, "members": ["h1", "h2", "h3"]},
    ],
}


class SocketTransport:
    """The MAD stack at the other end of the socket; it is what waits and asks again."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._waiting: dict[int, Done] = {}
        self._tid = 0
        self._handlers: list[AgentHandler] = []

    def submit(
        self, dlid: int, mad: Mad, done: Done, *, timeout_s: float = 1.0, retries: int = 3, sl: int = 0
    ) -> int:
        self._tid += 1
        self._waiting[self._tid] = done
        self._writer.write(MadMessage(dlid, mad.build(self._tid), sl=sl).build())
        return self._tid

    def send(self, dlid: int, mad: bytes, *, sl: int = 0) -> None:
        self._writer.write(MadMessage(dlid, mad, sl=sl).build())

    def register_agent(
        self, mgmt_class: int, oui: bytes | None, methods: Iterable[int], handler: AgentHandler
    ) -> AgentRegistration:
        self._handlers.append(handler)
        return AgentRegistration(mgmt_class, oui, frozenset(methods), handler)

    def unregister_agent(self, registration: AgentRegistration) -> None:
        self._handlers.remove(registration.handler)

    def take(self, message: MadMessage) -> None:
        mad = Mad.parse(message.mad)
        if mad.header.method == Method.TRAP:
            for handler in self._handlers:
                handler(MadRequest(message.mad, mad.header, message.lid, message.pkey, 0, 1))
            return
        self._waiting.pop(mad.header.tid)(mad if message.outcome == Outcome.OK else None)


class FixedTopology:
    """Ports that stay, and groups that are only remembered."""

    def __init__(self, lid: int, facts: list[PortFacts]) -> None:
        self.lid = lid
        self._facts = facts
        self._groups: dict[int, frozenset[int]] = {}

    def ports(self) -> list[PortFacts]:
        return self._facts

    def known(self) -> list[PortFacts]:
        return self._facts

    sl = 0

    @property
    def given(self) -> bool:
        return False

    def set_groups(self, groups: dict[int, Group | None]) -> None:
        self._groups |= {group.mlid: group.guids for group in groups.values() if group is not None}

    def group_lids(self) -> None:
        """The EM chooses."""

    def why_not_in_group(self, vesw_id: int, guid: int) -> str:
        return ""

    def group_members(self, mlid: int) -> frozenset[int]:
        return self._groups.get(mlid, frozenset())

    @property
    def open_ended(self) -> bool:
        return False

    def election_lids(self, heard: Iterable[int]) -> frozenset[int]:
        return frozenset(heard)

    def join_election(self) -> None:
        """There is no other."""

    def subscribe(self, handler: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


async def manage(socket_path: str, database: str, ports: dict[str, Any]) -> None:
    """Manage the ports until stdin ends."""
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_unix_connection(socket_path)
    transport = SocketTransport(writer)
    facts = [PortFacts(**{**fact, "pkeys": frozenset(fact["pkeys"])}) for fact in ports["facts"]]
    topology = FixedTopology(ports["lid"], facts)
    em = EthernetService(transport, topology, Store(database, wall_clock=time.time), clock=loop, guid=1)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)

    async def receive() -> None:
        messages = MessageReader()
        while data := await reader.read(65536):
            for message in messages.feed(data):
                transport.take(message)

    receiving = asyncio.create_task(receive())
    em.start(parse_config(CONFIG))
    clean = asyncio.create_task(_say_when_clean(em))
    await ended.wait()
    for task in (clean, receiving):
        task.cancel()
    em.stop()
    writer.close()


async def _say_when_clean(em: EthernetService) -> None:
    while not await em.wait_converged(60.0) or await em.verify():
        await em.wait_for(
            lambda: not em.converged, 5.0
        )  # the next look of the EM finds what verify has found
    print("clean", flush=True)


if __name__ == "__main__":
    asyncio.run(manage(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
