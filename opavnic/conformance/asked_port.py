"""A port of a fabric of its own, asked from the manager's port: Linux's own driver is behind it, or our agent.

Packets arrive at once there, so our agent has answered before `ask` returns; a kernel is waited for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final, NamedTuple

from hfi_sim.base.types import PKEY_FULL_MANAGEMENT
from hfi_sim.fabric.topology import single_switch
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.wire.mad.header import TID, Method
from hfi_sim.wire.mad.message import Mad
from opavnic.world.world import World
from vema.attributes.attr_id import AttrId
from vema.em.core.messages import build_request

Wait = Callable[[Callable[[], bool], str], None]
"""Waits until a condition holds; the text says what was waited for."""

_FIRST_TID: Final = 0x5_0000_0001


class HeardMad(NamedTuple):
    """A MAD that came back, with the P_Key of its packet."""

    pkey: int
    mad: bytes


class AskedPort:
    """One host's port, and what answers there."""

    def __init__(self, world: World, wait: Wait) -> None:
        """Configure the fabric of a world with one host."""
        self.world = world
        (host,) = world.hosts.values()
        self.port = host.port
        world.set_pkeys(self.port, [PKEY_FULL_MANAGEMENT])  # a full member hears limited ones too
        world.subnet_manager.sweep()
        self._wait = wait
        self._tids = itertools.count(_FIRST_TID)
        self._heard: list[MadRequest] = []
        world.em_port.mad.give_rest_to(self._heard.append)

    @property
    def lid(self) -> int:
        """Its LID."""
        return int(self.port.lid)

    def request(self, lid: int, mad: bytes) -> bytes | None:
        """Send a request and return its response; the next MAD with its transaction id and class is taken for it.

        Raises:  KernelError: the kernel has ended, or does not answer.
        """
        answers: list[Mad | None] = []
        self.world.em_port.mad.submit(lid, Mad.parse(mad), answers.append)
        self._wait(lambda: bool(answers), f"an answer to {mad[:24].hex()}")
        answer = answers[0]
        return None if answer is None else answer.build(int.from_bytes(mad[TID]))

    def ask(self, mad: bytes, pkey: int | None = None) -> list[HeardMad]:
        """Send a MAD with a transaction id of its own; return what comes back before the answer to a question after it.

        The transaction ids are the same for every port that is asked the same.
        """
        tid, last = next(self._tids), next(self._tids)
        self._heard.clear()
        question = build_request(Method.GET, AttrId.CLASS_PORT_INFO, tid=last)
        self.world.em_port.mad.send(self.lid, mad[: TID.start] + tid.to_bytes(8) + mad[TID.stop :], pkey=pkey)
        self.world.em_port.mad.send(self.lid, question.build())
        self._wait(
            lambda: any(heard.header.tid == last for heard in self._heard), f"an answer to {mad[:24].hex()}"
        )
        return [HeardMad(heard.pkey, heard.mad) for heard in self._heard if heard.header.tid == tid]


def our_port(*, sets_need_full_member: bool = True) -> AskedPort:
    """Return a port with our agent, as a lab has it by default."""
    world = World(single_switch(1))
    (host,) = world.hosts
    world.add_vnic_port(host, netdevs=memory_netdev, sets_need_full_member=sets_need_full_member)
    return AskedPort(world, _at_once)


def _at_once(done: Callable[[], bool], awaited: str) -> None:
    if not done():
        raise AssertionError(f"our agent has not sent {awaited}")
