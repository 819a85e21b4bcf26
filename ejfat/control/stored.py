"""A reservation as it is stored, in parts: a change writes only the parts that it changed.

""           name, instance, strategy, end, next numbers
"senders"    the addresses that may send
"epochs"     connected epochs, and the largest tick seen when they last changed
"session/N"  a worker's session
"member/N"   a member's rewrite, which may outlive its session
"chain/N"    a session upstream, with the tokens that it needs there
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from ipaddress import ip_address
from typing import Any

from ejfat.base.errors import BadRequestError
from ejfat.control.assignment import Strategy
from ejfat.control.balancer import Policy, ReservedInstance
from ejfat.control.chains import Chain
from ejfat.control.epochs.calendar import Prefix
from ejfat.control.epochs.epochs import Epoch, EpochManager, Retiring
from ejfat.control.epochs.programming import Rewrite, TableTarget
from ejfat.control.members import Session

Parts = dict[str, Any]
"""Plain data by the name of the part."""


def parts_of(balancer: ReservedInstance) -> Parts:
    """Return all parts."""
    names = ["", "senders", "epochs", *(f"session/{number}" for number in balancer.sessions)]
    names += [f"member/{number}" for number in balancer.rewrites]
    names += [f"chain/{number}" for number in balancer.chains]
    return {name: part_of(balancer, name) for name in names}


def part_of(balancer: ReservedInstance, name: str) -> Any:
    """Return one part; None if it is gone."""
    kind, _, number = name.partition("/")
    if kind == "session":
        session = balancer.sessions.get(int(number))
        return None if session is None else session.snapshot()
    if kind == "member":
        rewrite = balancer.rewrites.get(int(number))
        if rewrite is None:
            return None
        return [rewrite.mac, str(rewrite.ip), rewrite.port, rewrite.port_bits, rewrite.keep_lb_header]
    if kind == "chain":
        chain = balancer.chains.get(int(number))
        return None if chain is None else asdict(chain)
    if kind == "senders":
        return sorted(map(str, balancer.senders))
    return _epochs_of(balancer) if kind == "epochs" else _head_of(balancer)


def _head_of(balancer: ReservedInstance) -> dict[str, Any]:
    return {
        "lb_id": balancer.target.lb_id,
        "name": balancer.name,
        "strategy": balancer.strategy.value,
        "expires_at": balancer.expires_at,
        "family": balancer.family,
        "next_session": balancer.next_session,
        "next_member": balancer.next_member,
        "next_chain": balancer.next_chain,
    }


def _epochs_of(balancer: ReservedInstance) -> dict[str, Any]:
    epochs = balancer.epochs
    return {
        "next": epochs.next_number,
        "current": asdict(epochs.current) if epochs.current else None,
        "retiring": [
            {"epoch": asdict(old.epoch), "end": old.end, "cover": [list(p) for p in old.cover]}
            for old in epochs.retiring
        ],
        "seen": balancer.watch.ticks.seen,
    }


class Written:
    """The parts of a reservation that the store has; finds the parts that have changed since."""

    def __init__(self) -> None:
        self._head: dict[str, Any] | None = None
        self._epochs: tuple[object, ...] | None = None

    def changes(self, balancer: ReservedInstance) -> Parts:
        """Return the parts that have changed since the last call; a part that is gone is None."""
        names = balancer.take_touched()
        changed = {name: part_of(balancer, name) for name in names}
        head = _head_of(balancer)
        if head != self._head:
            changed[""] = self._head = head
        epochs = balancer.epochs
        at = (epochs.next_number, epochs.current and (epochs.current.number, epochs.current.start))
        mark = (*at, *(old.epoch.number for old in epochs.retiring))
        if mark != self._epochs:
            self._epochs = mark
            changed["epochs"] = _epochs_of(balancer)
        return changed


def restore(
    parts: Mapping[str, Any], target: Callable[[int], TableTarget], policy: Policy, now: float
) -> ReservedInstance:
    """Return the reservation from its parts.

    Args:    target: returns the tables of an instance, which may differ from those at the time of storing.
    Raises:  BadRequestError: not valid parts.
    """
    try:
        head, state = parts[""], parts["epochs"]
        balancer = ReservedInstance(
            target(head["lb_id"]),
            head["name"],
            policy,
            Strategy(head["strategy"]),
            head["expires_at"],
            head["family"],
            {ip_address(text) for text in parts["senders"]},
        )
        for name, data in sorted(parts.items(), key=lambda item: (len(item[0]), item[0])):
            kind, _, number = name.partition("/")
            if kind == "session":
                balancer.sessions[int(number)] = Session.restore(data, now)
            elif kind == "member":
                mac, ip, *rest = data
                balancer.rewrites[int(number)] = Rewrite(int(number), mac, ip_address(ip), *rest)
            elif kind == "chain":
                balancer.chains[int(number)] = Chain(**data)
        balancer.next_session, balancer.next_member = head["next_session"], head["next_member"]
        balancer.next_chain = head.get("next_chain", 1)
        epochs = EpochManager(balancer.target, next_number=state["next"])
        epochs.current = _epoch(state["current"])
        for old in state["retiring"]:
            epoch = _epoch(old["epoch"])
            if epoch is not None:
                cover = tuple(Prefix(value, length) for value, length in old["cover"])
                epochs.retiring.append(Retiring(epoch, old["end"], cover))
        balancer.resume(epochs, state["seen"], now)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadRequestError(f"stored state of a load balancer: {error!r}") from None
    return balancer


def _epoch(data: dict[str, Any] | None) -> Epoch | None:
    return None if data is None else Epoch(data["number"], data["start"], tuple(data["members"]))
