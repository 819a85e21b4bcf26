"""Which peers are alive: those with a token, unless their last link is gone."""

from __future__ import annotations

from opavnic.cluster.protocol.membership import Hello, Liveness, MachineRole
from opavnic.cluster.protocol.transport import NodeName


def hello(name: str, epoch: int) -> Hello:
    return Hello(NodeName(name), MachineRole.MEMBER, 0x301, epoch)


M1, M2 = hello("m1", 5), hello("m2", 7)


def test_node_goes_with_its_last_link_and_is_back_with_the_next() -> None:
    liveness = Liveness()
    assert liveness.linked(5, "a") == []
    assert liveness.announced(M1)
    assert liveness.linked(5, "b") == []
    assert liveness.unlinked(5, "a") == []
    assert liveness.unlinked(5, "b") == [M1]
    assert not liveness.announced(M1)  # said again while nobody is there to say it
    assert liveness.linked(5, "c") == [M1]


def test_node_whose_token_went_too_is_back_with_its_token() -> None:
    liveness = Liveness()
    liveness.linked(5, "a")
    liveness.announced(M1)
    assert liveness.unlinked(5, "a") == [M1]
    liveness.withdrawn(M1)
    assert liveness.linked(5, "b") == []
    assert liveness.announced(M1)


def test_links_of_one_node_say_nothing_of_another() -> None:
    liveness = Liveness()
    for epoch in (5, 7):
        liveness.linked(epoch, "a")
    liveness.announced(M1)
    liveness.announced(M2)
    assert liveness.unlinked(7, "a") == [M2]
    assert liveness.announced(M1)


def test_link_that_went_without_a_word_went_with_the_token() -> None:
    """Where the other end says goodbye, Zenoh tells of the token alone."""
    liveness = Liveness()
    liveness.linked(5, "a")
    liveness.announced(M1)
    liveness.withdrawn(M1)
    liveness.linked(5, "b")
    liveness.announced(M1)
    assert liveness.unlinked(5, "b") == [M1]


def test_session_that_announces_nobody_and_token_of_an_unknown_session_are_as_they_were() -> None:
    liveness = Liveness()
    liveness.linked(9, "a")  # one that asks whether it may join
    assert liveness.unlinked(9, "a") == []
    assert liveness.unlinked(9, "a") == []
    assert liveness.announced(M1)  # its session has another id
