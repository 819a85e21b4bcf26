"""The faults of a fabric: set, listed, counted, removed, each by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from hfi_sim.base.clock import TimerHandle
from hfi_sim.base.errors import FaultError
from hfi_sim.base.options import options_of
from hfi_sim.base.random_stream import threshold
from hfi_sim.base.text import unknown_name
from hfi_sim.engine.link.rule import PACKET_KINDS, FaultKind, FaultRule, FaultTarget, PacketOptions, Tally
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.kinds import FaultSpec, OwnKind
from hfi_sim.fabric.faults.syntax import parse_fault, spec_text
from hfi_sim.fabric.faults.targets import cut_between, directions_of, links_of
from hfi_sim.nodes.cable import Link, LinkDirection
from hfi_sim.nodes.switch import Switch

log = logging.getLogger("hfi_sim.fabric.faults")


class FaultState(StrEnum):
    """Where a fault is in its life."""

    WAITING = "waiting"
    ACTIVE = "active"
    OVER = "over"


@dataclass(slots=True)
class ActiveFault:
    """A fault that was set, with what it has done."""

    number: int
    spec: FaultSpec
    refresh: Callable[[], None]
    """Brings the tally up to date."""
    state: FaultState = FaultState.WAITING
    tally: Tally = field(default_factory=Tally)
    """Packets that fitted while it was active; packets that it changed or took, or times that it began."""
    timers: list[TimerHandle] = field(default_factory=list)
    end: Callable[[], None] | None = None
    """Undoes what the current occurrence did."""

    @property
    def seen(self) -> int:
        """Packets that fitted while it was active."""
        self.refresh()
        return self.tally.seen

    @property
    def hits(self) -> int:
        """Packets that it changed or took, or times that it began."""
        self.refresh()
        return self.tally.hits

    @property
    def is_over(self) -> bool:
        """Whether it will do nothing any more."""
        return self.state is FaultState.OVER

    @property
    def who(self) -> str:
        """The name under which it holds links down."""
        return f"fault {self.number}"


class _Hook(NamedTuple):
    """What can be taken down and brought back."""

    crash: Callable[[], None]
    restart: Callable[[], None]
    can_crash: bool
    hfi: str | None


class Faults:
    """All faults of one fabric. Setting one never changes another."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        fabric.on_spent = self._spent
        self._numbers = 0
        self._faults: dict[int, ActiveFault] = {}
        self.known: Mapping[int, ActiveFault] = self._faults
        """All that were set and not removed, by number."""
        self._hooks: dict[str, _Hook] = {}
        self._crashed: dict[str, set[int]] = {}
        """The faults that hold down what is hooked under a name."""
        self._handlers: list[Callable[[ActiveFault], None]] = []
        self._starters: dict[FaultKind, Callable[[ActiveFault], Callable[[], None]]] = {
            FaultKind.RATE: self._start_rate,
            FaultKind.LINK_DOWN: self._start_down,
            FaultKind.PORT_ERROR: self._start_down,
            FaultKind.PARTITION: lambda fault: self._hold(cut_between(fabric, _nodes(fault.spec)), fault),
            FaultKind.SWITCH_REBOOT: self._start_reboot,
            FaultKind.HFI_REMOVAL: self._start_removal,
            FaultKind.REGISTER_ERROR: self._start_register_error,
            FaultKind.CRASH: lambda fault: self._take_down(fault.spec.on, fault),
        }

    # --- setting and removing ------------------------------------------------------------------------------

    def add(self, fault: FaultSpec | str, *, number: int | None = None) -> ActiveFault:
        """Set a fault, given as a `FaultSpec` or as text such as `loss on h1 20% l4=mad for=2s`.

        Args:    number: what it is called by; None: the next that no fault has had.
        Raises:  FaultError: an unknown kind, place or option, a value out of range, a number that a fault has.
        """
        spec = parse_fault(fault) if isinstance(fault, str) else fault
        self._check_place(spec)
        if number is None:
            number = self._numbers + 1
        elif number in self._faults:
            raise FaultError(f"fault {number} is set already: {spec_text(self._faults[number].spec)}")
        self._numbers = max(self._numbers, number)
        active = self._faults[number] = ActiveFault(number, spec, self.fabric.driver.count)
        if spec.after_s > 0:
            self._later(active, spec.after_s, lambda: self._begin_again(active))
            self._notify(active)
            return active
        try:
            self._begin(active)
        except FaultError:
            self.remove(number)
            raise
        return active

    def remove(self, number: int) -> None:
        """End a fault and forget it: what it did to links and nodes is undone.

        Args:    number: as `add` and `show` return it.
        Raises:  FaultError: no fault has this number.
        """
        if number not in self._faults:
            numbers = ", ".join(map(str, self._faults)) or "none is set"
            raise FaultError(f"no fault has the number {number} (set: {numbers})")
        self.finish(self._faults[number])
        del self._faults[number]

    def leave(
        self, nodes: Collection[str], links: Collection[Link], programs: Collection[str] = ()
    ) -> list[str]:
        """End and forget the faults of what is about to be taken away; return what they were.

        Args:    nodes: names of HFIs and switches. links: cables. programs: what can crash.
        """
        gone = [fault for fault in self._faults.values() if self._is_gone(fault.spec, nodes, links, programs)]
        for fault in gone:
            self.remove(fault.number)
        return [spec_text(fault.spec) for fault in gone]

    def _is_gone(
        self, spec: FaultSpec, nodes: Collection[str], links: Collection[Link], programs: Collection[str]
    ) -> bool:
        target = spec.kind.target
        if target is FaultTarget.PROGRAM:
            return spec.on in programs
        if target in (FaultTarget.SWITCH, FaultTarget.HFI):
            return spec.on in nodes
        if target is FaultTarget.NODES:
            return any(name in nodes for name in _nodes(spec))
        return set(links_of(self.fabric, spec.on)) <= set(links)

    def extend(self) -> None:
        """Let faults act on the links that have been laid since, where their places include them."""
        for fault in self._faults.values():
            if fault.state is not FaultState.ACTIVE:
                continue
            if fault.spec.kind in PACKET_KINDS:
                fault.end = self._start_packets(fault)
            elif fault.spec.kind.target in (FaultTarget.LINKS, FaultTarget.NODES) and fault.end is not None:
                self._extend_to_links(fault)

    def _extend_to_links(self, fault: ActiveFault) -> None:
        try:
            if isinstance(fault.spec.kind, OwnKind):
                self._undo(fault)
            fault.end = self._start(fault)
        except FaultError as error:
            log.error("%s is over: %s", fault.who, error)
            self.finish(fault)

    def specs(self) -> dict[int, FaultSpec]:
        """Return what was set, by number, but for what is over."""
        return {number: fault.spec for number, fault in self._faults.items() if not fault.is_over}

    def clear(self) -> int:
        """Remove all faults and return how many there were."""
        numbers = list(self._faults)
        for number in numbers:
            self.remove(number)
        return len(numbers)

    def show(self) -> list[dict[str, Any]]:
        """Return each fault with its number, text, state and counts."""
        self.fabric.count()
        return [
            {
                "number": fault.number,
                "fault": spec_text(fault.spec),
                "kind": fault.spec.kind.value,
                "on": fault.spec.on,
                "state": fault.state.value,
                "seen": fault.seen,
                "hits": fault.hits,
            }
            for fault in self._faults.values()
        ]

    def on_change(self, handler: Callable[[ActiveFault], None]) -> Callable[[], None]:
        """Subscribe. Args: handler: gets each fault whose state changes. Returns: a function that unsubscribes it."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def hook(
        self,
        name: str,
        crash: Callable[[], None],
        restart: Callable[[], None],
        *,
        can_crash: bool = True,
        hfi: str | None = None,
    ) -> None:
        """Let `crash on NAME` call `crash`, and `restart` when it ends: an agent, a manager, any program.

        Args:  name: of the program. crash: ends it. restart: starts it again. can_crash: whether that fault may be
               set. hfi: the HFI that it drives: it goes and comes with that.
        """
        self._hooks[name] = _Hook(crash, restart, can_crash, hfi)

    def unhook(self, name: str) -> None:
        """Refuse `crash on NAME` again; what such a fault holds down stays down. Args: name: as hooked."""
        self._hooks.pop(name, None)

    def holding(self, name: str) -> list[int]:
        """Return the numbers of the faults that hold down what is hooked under a name."""
        return sorted(self._crashed.get(name, ()))

    def _check_place(self, spec: FaultSpec) -> None:
        fabric, target = self.fabric, spec.kind.target
        named: Mapping[FaultTarget, tuple[str, Collection[str]]] = {
            FaultTarget.SWITCH: ("switch", fabric.switches),
            FaultTarget.HFI: ("HFI", fabric.hfis),
            FaultTarget.PROGRAM: (
                "agent or manager that can crash",
                [name for name, hook in self._hooks.items() if hook.can_crash],
            ),
        }
        if target in named:
            what, known = named[target]
            if spec.on not in known:
                raise FaultError(unknown_name(what, spec.on, known))
        elif target is FaultTarget.NODES:
            cut_between(fabric, _nodes(spec))
        else:
            directions_of(fabric, spec.on, spec.match.direction)

    # --- the life of a fault -------------------------------------------------------------------------------

    def _later(self, fault: ActiveFault, delay_s: float, call: Callable[[], None]) -> None:
        fault.timers.append(self.fabric.clock.call_later(delay_s, call))

    def _begin(self, fault: ActiveFault) -> None:
        spec = fault.spec
        fault.timers.clear()
        self._enter(fault, FaultState.ACTIVE)
        log.info("%s begins: %s", fault.who, spec_text(spec))
        if spec.kind in PACKET_KINDS:
            fault.end = self._start_packets(fault)
        else:
            fault.tally.hits += 1
            fault.end = self._start(fault)
        if spec.every_s is not None and (spec.kind in PACKET_KINDS or fault.hits != spec.count):
            self._later(fault, spec.every_s, lambda: self._begin_again(fault))
        if spec.duration_s is not None:
            last = len(fault.timers) == 0
            self._later(fault, spec.duration_s, lambda: self._pause(fault, last))

    def _begin_again(self, fault: ActiveFault) -> None:
        """Begin later than it was set, with the log as the only place to say why it cannot."""
        try:
            self._begin(fault)
        except FaultError as error:
            log.error("%s is over: %s", fault.who, error)
            self.finish(fault)

    def _start(self, fault: ActiveFault) -> Callable[[], None]:
        kind = fault.spec.kind
        if isinstance(kind, OwnKind):
            return kind.start(self.fabric, fault.spec.on, fault.who)
        return self._starters[kind](fault)

    def _pause(self, fault: ActiveFault, last: bool) -> None:
        self._undo(fault)
        self._enter(fault, FaultState.OVER if last else FaultState.WAITING)

    def _undo(self, fault: ActiveFault) -> None:
        end, fault.end = fault.end, None
        if end is not None:
            log.info("%s ends", fault.who)
            end()

    def finish(self, fault: ActiveFault) -> None:
        """End a fault for good; it stays listed with its counts."""
        for timer in fault.timers:
            timer.cancel()
        fault.timers.clear()
        self._undo(fault)
        self._enter(fault, FaultState.OVER)

    def _enter(self, fault: ActiveFault, state: FaultState) -> None:
        if fault.state is not state:
            fault.state = state
            self._notify(fault)

    def _notify(self, fault: ActiveFault) -> None:
        for handler in tuple(self._handlers):
            handler(fault)

    # --- packets -------------------------------------------------------------------------------------------

    def _start_packets(self, fault: ActiveFault) -> Callable[[], None]:
        spec = fault.spec
        rule = FaultRule(
            fault.number,
            FaultKind(spec.kind.value),
            threshold(spec.probability),
            spec.match,
            fault.tally,
            **{option.field: getattr(spec, option.field) for option in options_of(PacketOptions)},
        )
        ways = directions_of(self.fabric, spec.on, spec.match.direction)
        for way in ways:
            way.add_rule(rule)

        def end() -> None:
            for way in ways:
                way.remove_rule(rule.number)

        return end

    def _spent(self, number: int) -> None:
        """End a fault that has hit as many packets as it was to, if it was not removed meanwhile."""
        if number in self._faults:
            self.finish(self._faults[number])

    # --- links and nodes -----------------------------------------------------------------------------------

    def _hold(self, links: Iterable[Link], fault: ActiveFault) -> Callable[[], None]:
        held = list(links)
        self.fabric.set_links(held, False, by=fault.who)
        return lambda: self.fabric.set_links(held, True, by=fault.who)

    def _start_down(self, fault: ActiveFault) -> Callable[[], None]:
        """Hold links down; of a link of which only one direction is meant, cut that one: its ports stay up."""
        by_link = self._ways_of(fault)
        let_up = self._hold([link for link, ways in by_link.items() if len(ways) > 1], fault)
        alone = [ways[0] for ways in by_link.values() if len(ways) == 1]
        for way in alone:
            way.cut(fault.who, True)

        def end() -> None:
            let_up()
            for way in alone:
                way.cut(fault.who, False)

        return end

    def _start_rate(self, fault: ActiveFault) -> Callable[[], None]:
        by_link = self._ways_of(fault)

        def limit(rate_bps: float | None) -> None:
            for link, ways in by_link.items():
                link.limit_rate(ways, fault.who, rate_bps)

        limit(fault.spec.rate_bps)
        return lambda: limit(None)

    def _ways_of(self, fault: ActiveFault) -> dict[Link, list[LinkDirection]]:
        """Return the directions of each link that a fault is on."""
        found: dict[Link, list[LinkDirection]] = {}
        for way in dict.fromkeys(directions_of(self.fabric, fault.spec.on, fault.spec.match.direction)):
            found.setdefault(way.link, []).append(way)
        return found

    def _start_reboot(self, fault: ActiveFault) -> Callable[[], None]:
        switch: Switch = self.fabric.switches[fault.spec.on]
        self.fabric.set_switch(switch, False)
        return lambda: self.fabric.set_switch(switch, True)

    def _start_removal(self, fault: ActiveFault) -> Callable[[], None]:
        """Take an HFI away, as its driver's removal does: the clients of the device go first, and come back last."""
        hfi = self.fabric.hfis[fault.spec.on]
        ends = [self._take_down(name, fault) for name, hook in self._hooks.items() if hook.hfi == hfi.name]
        self.fabric.remove_hfi(hfi)
        links = [port.link for port in hfi.ports.values() if port.link is not None]

        def end() -> None:
            self.fabric.set_links(links, True, by=f"hfi {hfi.name}")
            for bring_back in ends:
                bring_back()

        return end

    def _start_register_error(self, fault: ActiveFault) -> Callable[[], None]:
        hfi = self.fabric.hfis[fault.spec.on]
        breaks = [port.break_register for port in hfi.ports.values() if port.break_register is not None]
        if not breaks and not hfi.is_remote:
            raise FaultError(
                f"{hfi.name} has no registers: it is not the HFI of a host with kernel: hfi1 that runs"
            )
        for break_register in breaks:
            break_register()
        return lambda: None

    def _take_down(self, name: str, fault: ActiveFault) -> Callable[[], None]:
        """Crash what is hooked under a name; it comes back once no fault holds it down any more."""
        down = self._crashed.setdefault(name, set())
        if not down:
            self._hooks[name].crash()
        down.add(fault.number)

        def end() -> None:
            down.discard(fault.number)
            if not down and name in self._hooks:
                self._hooks[name].restart()

        return end


def _nodes(spec: FaultSpec) -> list[str]:
    return [name.strip() for name in spec.on.split(",")]
