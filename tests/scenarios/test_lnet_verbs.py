"""Delivered, or said: the law of delivery under faults, lnetctl verbs at any moment, restarts and both bondings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from lnet.node.deliveries import DuplicateFilter
from lnet.o2iblnd import peer as peer_module
from lnet.o2iblnd.peer import KibPeer
from lnet.objects.peers import KibTx
from lnet.routes.messages import MessageTable
from scenarios.lnet_verbs import VerbSchedule

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("seed", range(6))
def test_done_is_delivered_once_and_failed_at_most_once_whatever_happens(seed: int) -> None:
    VerbSchedule(seed).run()


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 500, 50))
def test_five_hundred_schedules_done_is_delivered_once_and_failed_at_most_once(first: int) -> None:
    ends: Counter[str] = Counter()
    for seed in range(first, first + 50):
        ends += VerbSchedule(seed).run()
    assert min(ends[end] for end in ("done", "failed", "in doubt", "sender restarted")) > 0


def number_by_peer(patch: Patch) -> None:
    """Number messages for each peer, from 1."""
    start, header, places = KibPeer._start, peer_module.LnetHdr, [0]

    def numbered(self: KibPeer, tx: KibTx) -> None:
        places[0] = tx.place
        start(self, tx)

    patch.setattr(KibPeer, "_start", numbered)
    patch.setattr(
        peer_module, "LnetHdr", lambda *args, **more: header(*args, **{**more, "object_cookie": places[0]})
    )


def forget_deliveries(patch: Patch) -> None:
    """Remember nothing that was delivered."""
    patch.setattr(DuplicateFilter, "has", lambda *args: False)
    patch.setattr(DuplicateFilter, "add", lambda *args: True)


def trust_restarted_peers(patch: Patch) -> None:
    """Send a message again to another incarnation of the peer that may have had it."""
    start = KibPeer._start

    def trusting(self: KibPeer, tx: KibTx) -> None:
        tx.doubt_stamp = tx.doubt_stamp and self.stamp
        start(self, tx)

    patch.setattr(KibPeer, "_start", trusting)


def never_doubt(patch: Patch) -> None:
    """Report what may have arrived as certainly failed."""
    patch.setattr(KibTx, "may_be_there", property(lambda tx: False))


def claim_deliveries(patch: Patch) -> None:
    """Tell the senders of large messages that they have been delivered."""
    patch.setattr(DuplicateFilter, "has", lambda *args: True)


def raise_for_networks_that_went(patch: Patch) -> None:
    """Keep the peers of a network that was removed, and raise when one of them is to be pinged."""
    send = MessageTable.send

    def raising(self: MessageTable, tx: KibTx) -> int:
        assert tx.then is None or self._nis[tx.nid.net]
        return send(self, tx)

    patch.setattr(MessageTable, "send", raising)
    patch.setattr(MessageTable, "drop_peer", lambda *args: None)


def run_schedules(seeds: range) -> None:
    for seed in seeds:
        VerbSchedule(seed).run()


# with the first schedule in which each shows: those before need not be run to see it
SABOTAGES = [
    (number_by_peer, 1),
    (forget_deliveries, 3),
    (trust_restarted_peers, 7),
    (never_doubt, 3),
    (claim_deliveries, 0),
    (raise_for_networks_that_went, 10),
]


@pytest.mark.breaks_core
@pytest.mark.parametrize(("sabotage", "first"), SABOTAGES)
def test_law_notices_a_sabotage(sabotage: Callable[[Patch], None], first: int, monkeypatch: Patch) -> None:
    sabotage(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_schedules(range(first, first + 30))
