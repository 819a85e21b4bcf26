"""Who is in sight: whose token is there, unless its last link has gone."""

from __future__ import annotations

from opavnic.cluster.protocol.liveness import Liveness
from opavnic.cluster.protocol.membership import Hello, Role
from opavnic.cluster.protocol.transport import NodeName


def hello(name: str, life: int) -> Hello:
    return Hello(NodeName(name), Role.MEMBER, 0x301, life)


M1, M2 = hello("m1", 5), hello("m2", 7)


def test_node_goes_with_its_last_link_and_is_back_with_the_next() -> None:
    sight = Liveness()
    assert sight.linked(5, "a") == []
    assert sight.announced(M1)
    assert sight.linked(5, "b") == []
    assert sight.unlinked(5, "a") == []
    assert sight.unlinked(5, "b") == [M1]
    assert not sight.announced(M1)  # said again while nobody is there to say it
    assert sight.linked(5, "c") == [M1]


def test_node_whose_token_went_too_is_back_with_its_token() -> None:
    sight = Liveness()
    sight.linked(5, "a")
    sight.announced(M1)
    assert sight.unlinked(5, "a") == [M1]
    sight.withdrawn(M1)
    assert sight.linked(5, "b") == []
    assert sight.announced(M1)


def test_links_of_one_node_say_nothing_of_another() -> None:
    sight = Liveness()
    for life in (5, 7):
        sight.linked(life, "a")
    sight.announced(M1)
    sight.announced(M2)
    assert sight.unlinked(7, "a") == [M2]
    assert sight.announced(M1)


def test_link_that_went_without_a_word_went_with_the_token() -> None:
    """Where the other end says goodbye, Zenoh tells of the token alone."""
    sight = Liveness()
    sight.linked(5, "a")
    sight.announced(M1)
    sight.withdrawn(M1)
    sight.linked(5, "b")
    sight.announced(M1)
    assert sight.unlinked(5, "b") == [M1]


def test_session_that_announces_nobody_and_token_of_an_unknown_session_are_as_they_were() -> None:
    sight = Liveness()
    sight.linked(9, "a")  # one that asks whether it may join
    assert sight.unlinked(9, "a") == []
    assert sight.unlinked(9, "a") == []
    assert sight.announced(M1)  # its session has another id
