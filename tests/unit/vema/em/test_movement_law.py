"""The last who spoke has the address: a law over hosts that speak and listen, and EMs that restart and fail over.

The oracle knows who has sent frames, and nothing of lists, traps and tables. Frames of several hosts within `RACE_S`
are concurrent: an EM that is told of them one after the other may end with any of them. An address that has moved too
often may stay where it is for a while, and an EM without memory may begin while it does, or while a host that has
spoken is still being heard; then the next frame decides.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.types import MacAddr
from opavnic.vnic.speakers import AGEING_S, Speakers, _Gone
from unit.vema.em.em_fabric import EmFabric, config
from vema.em.core.state import Vport
from vema.em.desired.movement import HOLD_S, AddressClaim, Movement
from vema.em.service.service import EthernetService

HOSTS = 4
MACS = [MacAddr(bytes.fromhex("00005e000107")), MacAddr(bytes.fromhex("02420a090201"))]
RACE_S = 3.0
BROADCAST = b"\xff" * 6

hosts = st.integers(1, HOSTS)
macs = st.sampled_from(MACS)


class Spoken:
    """What the oracle knows of one address."""

    def __init__(self) -> None:
        self.speeches: list[tuple[float, int]] = []
        self.listeners: dict[int, float] = {}
        """Hosts that listen to it, and since when."""
        self.former: set[int] = set()
        """Hosts that had spoken when the last speaker left: they may still have the address."""
        self.is_unsure = False
        """Whether an EM without memory has begun while the last frame was news."""

    def holders(self, now: float) -> set[int]:
        """Return the hosts of which any may have the address; 0: none."""
        last = self.speeches[-1][0] if self.speeches else None
        if last is None:
            return (set(self.listeners) or {0}) | self.former
        speakers = {host for at, host in self.speeches if at >= last - RACE_S}
        speakers |= {host for host, at in self.listeners.items() if abs(at - last) < RACE_S}
        if now > last + AGEING_S - 1.0:
            return speakers | set(self.listeners) | {0}
        return speakers

    def stops(self, host: int) -> None:
        """Forget a host that does not listen any more."""
        if host in self.listeners:
            del self.listeners[host]
            if self.speeches and self.speeches[-1][1] == host:
                self.former = {other for _, other in self.speeches if other != host}
                self.speeches.clear()
            self.speeches = [(at, other) for at, other in self.speeches if other != host]


class MovementLaw(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.fabric = EmFabric(HOSTS, ems=2, clock=self.clock)
        self.known = {mac: Spoken() for mac in MACS}
        self.em: EthernetService | None = None

    @initialize()
    def begin(self) -> None:
        self.number = 1
        self.em = self.fabric.em(1)
        self.em.start(config([f"h{n}" for n in range(1, HOSTS + 1)]))
        self.clock.advance(10.0)
        for host in range(1, HOSTS + 1):
            assert self.fabric.netdev(host).open() == 0
        self.clock.advance(3.0)

    def teardown(self) -> None:
        if self.em is not None:
            self.em.stop()

    # --- what happens ------------------------------------------------------------------------------------------

    @rule(host=hosts, mac=macs)
    def speak(self, host: int, mac: MacAddr) -> None:
        assert self.fabric.netdev(host).transmit((BROADCAST + mac + b"\x88\xb5").ljust(60, b"\0"))
        self.known[mac].speeches.append((self.clock.time(), host))

    @rule(mac=macs, others=st.lists(hosts, min_size=4, max_size=9), gap=st.sampled_from([0.001, 0.3]))
    def flap(self, mac: MacAddr, others: list[int], gap: float) -> None:
        for host in others:
            self.speak(host, mac)
            self.clock.advance(gap)

    @rule(host=hosts, other=hosts, mac=macs)
    def answer_at_once(self, host: int, other: int, mac: MacAddr) -> None:
        """Let a host speak as soon as its own table has the address elsewhere: no frame of the other comes later."""
        self.speak(host, mac)
        self.clock.advance(RACE_S)
        self.speak(other, mac)
        for _ in range(5000):
            if self.fabric.dlids(host).get(mac) == self.fabric.port(other).lid:
                self.speak(host, mac)
                del self.known[mac].speeches[:-1]
                break
            self.clock.advance(0.0002)

    @precondition(lambda self: self.held)
    @rule(host=hosts)
    def restart_while_an_address_is_held(self, host: int) -> None:
        """What another member has said meanwhile is not lost; that its holder speaks is not news."""
        mac = self.held[0]
        if mac not in self.fabric.dlids(host):
            return
        self.clock.advance(RACE_S)
        self.speak(host, mac)
        self.clock.advance(1.0)
        self.restart(memory=True)
        self.known[mac].is_unsure = False

    @rule(host=hosts, mac=macs)
    def listen(self, host: int, mac: MacAddr) -> None:
        netdev = self.fabric.netdev(host)
        if mac not in netdev.uc_list:
            netdev.set_uc_list([*netdev.uc_list, mac])
            self.known[mac].listeners[host] = self.clock.time()

    @rule(host=hosts, mac=macs)
    def stop_listening(self, host: int, mac: MacAddr) -> None:
        netdev = self.fabric.netdev(host)
        if mac in netdev.uc_list:
            netdev.set_uc_list([other for other in netdev.uc_list if other != mac])
            self.known[mac].stops(host)
            self.clock.advance(RACE_S)

    @rule(memory=st.booleans())
    def restart(self, memory: bool) -> None:
        assert self.em is not None
        held = self.held
        self.em.restart(memory=memory)
        if not memory:
            self.forget(held)
        for mac in held:
            self.known[mac].is_unsure = True
        if held:
            self.clock.advance(RACE_S)

    @rule()
    def fail_over(self) -> None:
        assert self.em is not None
        assert self.em.core is not None
        wanted, held = self.em.core.config, self.held
        self.em.stop()
        self.number = 3 - self.number
        self.em = self.fabric.em(self.number)
        self.em.start(wanted)
        self.forget(held)

    def forget(self, held: Sequence[MacAddr]) -> None:
        for mac, known in self.known.items():
            if mac in held or (known.speeches and self.clock.time() < known.speeches[-1][0] + RACE_S):
                known.is_unsure = True
        self.clock.advance(10.0)

    @rule(seconds=st.sampled_from([0.001, 0.02, 0.5, 4.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # --- what must be so ---------------------------------------------------------------------------------------

    def settle(self) -> None:
        assert self.em is not None
        self.clock.advance(RACE_S)
        for _ in range(20):
            if self.em.core is not None and self.em.core.converged:
                return
            self.clock.advance(1.0)
        raise AssertionError("the EM does not converge")

    @property
    def held(self) -> list[MacAddr]:
        core = None if self.em is None else self.em.core
        vesw = None if core is None else core.vesws.get(2)
        return [] if vesw is None else vesw.table.movement.held

    @rule()
    def the_last_speaker_has_it(self) -> None:
        self.settle()
        for mac in MACS:
            known = self.known[mac]
            if mac in self.held:
                self.clock.advance(HOLD_S + 1.0)
                assert mac not in self.held
                known.is_unsure = True
            if known.is_unsure and known.speeches:
                self.settle()
                self.speak(known.speeches[-1][1], mac)
                self.settle()
            known.is_unsure = False
            lids = {0: 0} | {host: self.fabric.port(host).lid for host in range(1, HOSTS + 1)}
            tables = [self.fabric.dlids(host).get(mac, 0) for host in range(1, HOSTS + 1)]
            allowed = known.holders(self.clock.time())
            right = [
                [0 if host == holder else lids[holder] for host in range(1, HOSTS + 1)] for holder in allowed
            ]
            assert tables in right, f"{mac.hex(':')}: {tables}, expected of {sorted(allowed)}: {right}"

    @precondition(lambda self: any(known.speeches for known in self.known.values()))
    @rule()
    def who_has_it_changes_nothing_by_speaking(self) -> None:
        self.the_last_speaker_has_it()
        for mac, known in self.known.items():
            if known.speeches and len(known.holders(self.clock.time())) == 1:
                sets = self.fabric.sets()
                self.speak(known.speeches[-1][1], mac)
                self.settle()
                assert self.fabric.sets() == sets


def search(examples: int, steps: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        MovementLaw,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )


def play(seed: int, steps: int = 60) -> None:
    """Play a random schedule: short, and without the search for a smaller one."""
    rng = random.Random(seed)
    law = MovementLaw()
    law.begin()

    def host() -> int:
        return rng.randint(1, HOSTS)

    try:
        for _ in range(steps):
            mac = rng.choice(MACS)
            action = rng.choice(ACTIONS)
            if action == "speak":
                law.speak(host(), mac)
            elif action == "flap":
                law.flap(mac, [host() for _ in range(rng.randint(4, 9))], rng.choice([0.001, 0.3]))
            elif action == "answer":
                law.answer_at_once(host(), host(), mac)
            elif action == "held":
                if law.held:
                    law.restart_while_an_address_is_held(host())
            elif action == "listen":
                law.listen(host(), mac)
            elif action == "stop":
                law.stop_listening(host(), mac)
            elif action == "restart":
                law.restart(rng.random() < 0.5)
            elif action == "fail over":
                law.fail_over()
            elif action == "wait":
                law.wait(rng.choice([0.001, 0.02, 0.5, 4.0]))
            else:
                law.the_last_speaker_has_it()
    finally:
        law.teardown()


NOTICE = (0, 1, 16)
"""Schedules that notice each sabotage today; where the code has changed, others are tried behind them."""


def play_all(seeds: int) -> None:
    for seed in (*NOTICE, *range(seeds)):
        play(seed)


ACTIONS = [
    *("speak",) * 5, "flap", "flap", "answer", "answer", "held", "listen", "listen", "stop", "restart", "fail over",
    "wait", "wait", "check", "check", "check",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_the_last_who_spoke_has_the_address(seed: int) -> None:
    play(seed)


@pytest.mark.long
def test_the_last_who_spoke_has_the_address_in_many_schedules() -> None:
    search(400, 60)


def the_first_claim(
    _: Movement, mac: MacAddr, claims: Sequence[AddressClaim], holder: int, now: float
) -> AddressClaim:
    return claims[0]


def nothing(*_: object) -> None:
    """Do nothing."""


def never(*_: object) -> bool:
    return False


SABOTAGES: dict[str, tuple[type, str, object]] = {
    "the first member keeps it": (Movement, "choose", the_first_claim),
    "a hold never ends": (Movement, "release_at", None),
    "who listens has it without a frame": (Speakers, "own_changed", nothing),
    "a table takes nothing away": (Speakers, "table_changed", never),
    "an address comes back before the list was read without it": (_Gone, "is_read", True),
    "what is not settled is recorded": (Vport, "unsettled", frozenset()),
}


def ignored(value: object) -> property:
    return property(lambda _: value, nothing)


@pytest.mark.parametrize("name", SABOTAGES)
def test_sabotage_turns_the_law_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of, attribute, value = SABOTAGES[name]
    monkeypatch.setattr(of, attribute, value if callable(value) else ignored(value))
    with pytest.raises(AssertionError):
        play_all(60)
