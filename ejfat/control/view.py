"""All there is to see of a control plane at one moment: reservations, epochs, workers, senders. Sans-IO."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ejfat.base.drops import PipelineCounters
from ejfat.control.epochs.epochs import Epoch
from ejfat.control.health import issues_of, issues_of_addresses, issues_of_worker
from ejfat.control.members import Session
from ejfat.control.plane import ControlPlane, Reservation


def plane_view(plane: ControlPlane, counters: PipelineCounters, now: float) -> list[dict[str, Any]]:
    """Return the reservations of a control plane.

    Args:  counters: those of the data plane. now: Unix time.
    """
    return [_reservation(plane, reservation, counters, now) for reservation in plane.reservations.values()]


def _reservation(
    plane: ControlPlane, reservation: Reservation, counters: PipelineCounters, now: float
) -> dict[str, Any]:
    balancer, number = reservation.balancer, reservation.reservation_id
    sessions = sorted(balancer.sessions.values(), key=lambda one: (one.worker.name, one.session_id))
    names = {session.member_id: f"{session.worker.name} #{session.session_id}" for session in sessions}
    issues = [
        *issues_of(balancer, now),
        *issues_of_addresses(plane.config.instances[reservation.instance].all, plane.conflicts, now),
        *(
            one
            for session in sessions
            for one in issues_of_worker(session, balancer, plane.history, number, now)
        ),
    ]
    epochs = [
        (old.epoch, "runs out" if old.passed_at else "until a tick") for old in balancer.epochs.retiring
    ]
    if balancer.epochs.current is not None:
        epochs.append((balancer.epochs.current, "current"))
    return {
        "id": number,
        "name": balancer.name,
        "instance": reservation.instance,
        "strategy": balancer.strategy.value,
        "expires_in_s": None if balancer.expires_at is None else round(balancer.expires_at - now, 1),
        "senders": sorted(map(str, balancer.senders)),
        "refused_syncs": {str(reason): count for reason, count in balancer.watch.refused_syncs.items()},
        "restarts": balancer.watch.restarts,
        "takebacks": balancer.takebacks,
        "waits": balancer.refusals,
        **plane.history.latest(number),
        "drops": {str(reason): n for reason, n in counters.lbs[reservation.instance].drops.items()},
        "epochs": [_epoch(epoch, state, names) for epoch, state in epochs],
        "workers": [_worker(plane, number, session, balancer.slots()) for session in sessions],
        "issues": [{"severity": issue.severity, "text": issue.message} for issue in issues],
    }


def _epoch(epoch: Epoch, state: str, names: dict[int, str]) -> dict[str, Any]:
    slots = Counter(names.get(member, f"member {member}, gone") for member in epoch.members)
    return {"number": epoch.number, "from_tick": epoch.start, "state": state, "slots": dict(slots)}


def _worker(plane: ControlPlane, number: int, session: Session, slots: dict[int, int]) -> dict[str, Any]:
    worker = session.worker
    return {
        "session": session.session_id,
        "name": worker.name,
        "address": f"{worker.ip}:{worker.port}",
        "state": session.state.value,
        "weight": round(session.weight, 1),
        "slots": slots.get(session.session_id, 0),
        **plane.history.latest(number, session.session_id),
    }
