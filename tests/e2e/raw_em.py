"""An Ethernet Manager for tests: it speaks through the raw MAD socket of a lab and writes down every trap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.mad.header import Mad, MadHeader, Method
from opavnic.management.mad_frames import MadMessage, MessageReader, Outcome
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo, Notice
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.traps import notice_of
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.core.messages import build_request, read_response

PATIENCE_S = 60.0
"""How long anything may take on a machine that is busy."""


class RawEm:
    """Requests to vport 1 of one agent, and the traps that come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lid = 0
        """Of the agent."""
        self.traps: list[Notice] = []
        """Not yet taken."""
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[MadMessage]] = {}
        self._tid = 0
        self._trap_came = asyncio.Event()

    @staticmethod
    @asynccontextmanager
    async def connect(path: Path) -> AsyncIterator[RawEm]:
        """Talk to the lab's first agent until the context ends."""
        em = RawEm(*await asyncio.open_unix_connection(str(path)))
        listening = asyncio.create_task(em._listen())
        try:
            asked = asyncio.get_running_loop().create_future()
            em._waiting[0] = asked
            em._writer.write(MadMessage(0, b"").build())
            em.lid = int.from_bytes((await asyncio.wait_for(asked, PATIENCE_S)).mad[:4], "big")
            yield em
        finally:
            listening.cancel()
            em._writer.close()

    async def _listen(self) -> None:
        messages = MessageReader()
        while data := await self._reader.read(65536):
            for message in messages.feed(data):
                header = MadHeader.parse(message.mad) if len(message.mad) >= MadHeader.SIZE else None
                if header is not None and header.method == Method.TRAP:
                    assert message.lid == self.lid
                    self.traps.append(notice_of(message.mad))
                    self._trap_came.set()
                else:
                    self._waiting.pop(header.tid if header is not None else 0).set_result(message)

    async def ask(self, method: Method, attr_id: AttrId, data: bytes = b"") -> tuple[Mad, Mad]:
        """Return request and response."""
        self._tid += 1
        request = build_request(method, attr_id, data, attr_mod=1, tid=self._tid)
        answer: asyncio.Future[MadMessage] = asyncio.get_running_loop().create_future()
        self._waiting[self._tid] = answer
        self._writer.write(MadMessage(self.lid, request.build()).build())
        message = await asyncio.wait_for(answer, PATIENCE_S)
        assert message.outcome == Outcome.OK
        return request, Mad.parse(message.mad)

    async def get(self, attr_id: AttrId) -> bytes:
        """Return the data of an attribute."""
        return read_response(*await self.ask(Method.GET, attr_id))

    async def set(self, attr_id: AttrId, data: bytes) -> bytes:
        """Write an attribute and return the data of the response."""
        return read_response(*await self.ask(Method.SET, attr_id, data))

    async def set_sink(self, lid: int) -> None:
        """Let traps come to `lid`; 0: none."""
        info = ClassPortInfo.parse(await self.get(AttrId.CLASS_PORT_INFO))
        await self.set(AttrId.CLASS_PORT_INFO, replace(info, trap_lid=lid).build())

    async def port_info(self) -> VeswPortInfo:
        """Return configuration and state of vport 1."""
        return VeswPortInfo.parse(await self.get(AttrId.VESW_PORT_INFO))

    async def macs(self) -> tuple[list[str], list[str]]:
        """Return the unicast and the multicast addresses that the agent tells."""
        lists = [
            IfaceMacs.parse(await self.get(attribute))
            for attribute in (AttrId.IFACE_UCAST_MACS, AttrId.IFACE_MCAST_MACS)
        ]
        assert all(one.total == len(one.macs) for one in lists)
        ucast, mcast = ([text(mac) for mac in one.macs] for one in lists)
        return ucast, mcast

    async def gen_counts(self) -> tuple[int, int]:
        """Return the generation counts of the unicast and the multicast list."""
        info = await self.port_info()
        return info.uc_macs_gen_count, info.mc_macs_gen_count

    async def take_traps(self, count: int) -> list[int]:
        """Wait for `count` traps and for all that the lab has still in hand; return the opcodes, oldest first."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.traps) < count:
                self._trap_came.clear()
                await self._trap_came.wait()
        await self.settle()
        opcodes = [int(trap.opcode) for trap in self.traps]
        self.traps.clear()
        return opcodes

    async def settle(self) -> None:
        """Return when everything that the kernel had to tell has led to its traps, and these are here.

        The kernel queues a notification before the program that caused it goes on; each turn of the loop takes
        what is queued. The response of a Get comes behind the traps.
        """
        for _ in range(10):
            await asyncio.sleep(0)
        await self.get(AttrId.CLASS_PORT_INFO)


def text(mac: MacAddr) -> str:
    """Return an address as `ip` writes it."""
    return mac.hex(":")
