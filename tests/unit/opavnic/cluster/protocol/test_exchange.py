"""Links between two machines: order, back pressure, partitions and healing, and what a hostile peer may try."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.cluster.errors import ClusterInputError
from opavnic.cluster.protocol.exchange import OPEN_AGAIN_S, Exchange, Put, Urgency
from opavnic.cluster.protocol.messages import (
    Grant,
    StreamId,
    build_body,
    build_grant,
    build_open,
    build_train,
    train_head,
)
from opavnic.cluster.protocol.streams import ACK_EVERY, ONE_EACH, ONE_FOR_ALL, RIDE_BYTES, WINDOW, SendStream
from opavnic.cluster.protocol.transport import MANAGEMENT_SC, NodeName
from opavnic.cluster.protocol.zenoh_config import QUEUE_BATCHES
from unit.opavnic.cluster.two_nodes import LINK, A, B, TwoNodes

ZENOH_BATCH = 65_535 - 100
"""Bytes of a message in one batch of Zenoh's, without its heads."""


def opened(sc: int = 0) -> TwoNodes:
    """Two nodes that have met, and a stream that is open."""
    nodes = TwoNodes().bind().meet()
    assert nodes.send(b"asks", sc=sc) in (0, 1)
    nodes.settle()
    nodes.delivered[B].clear()
    return nodes


def test_packets_arrive_in_order_once_their_stream_is_open() -> None:
    nodes = opened()
    assert nodes.rooms > 0
    assert nodes.send(b"1", b"2", b"3") == 3
    nodes.settle()
    assert nodes.delivered[B] == [b"1", b"2", b"3"]
    assert (nodes.sender.sent, nodes.sender.acknowledged, nodes.sender.under_way) == (3, 3, 0)


def test_link_opens_whichever_end_is_bound_later() -> None:
    nodes = TwoNodes()
    nodes.a.bind(LINK, 0, B, 0.0)
    assert (nodes.sender.sent, nodes.sender.acknowledged, nodes.sender.under_way) == (0, 0, 0)
    nodes.meet()
    assert not nodes.sender.is_open
    assert nodes.b.refused["unknown_link"] == 1
    nodes.b.bind(LINK, 1, A, nodes.now)
    nodes.settle(OPEN_AGAIN_S)
    assert nodes.sender.is_open
    assert nodes.receiver.is_open


def test_sender_stops_at_the_window_and_goes_on_when_acknowledged() -> None:
    nodes = opened()
    taken = nodes.send(*[b"x"] * (WINDOW + 10))
    assert taken == WINDOW
    before = nodes.rooms
    nodes.settle()
    assert nodes.rooms > before
    assert nodes.send(*[b"y"] * 10) == 10


def test_receiver_without_room_stops_the_sender_after_one_window() -> None:
    nodes = opened()
    nodes.b.pause(LINK)
    assert nodes.send(*[b"x"] * WINDOW) == WINDOW
    nodes.settle(1.0)
    assert nodes.send(b"more") == 0
    nodes.b.resume(LINK, nodes.now)
    nodes.settle()
    assert nodes.send(b"more") == 1


def test_stalled_service_channel_leaves_others_and_mads_their_room() -> None:
    nodes = opened()
    assert nodes.send(*[b"x"] * (WINDOW + 1), sc=0) == WINDOW
    assert nodes.send(b"mad", sc=MANAGEMENT_SC) == 1
    assert [put.urgency for _, put in nodes.wire if put.urgency is Urgency.MANAGEMENT] == [Urgency.MANAGEMENT]


def test_bytes_under_way_to_one_peer_stay_within_what_its_queue_holds() -> None:
    nodes = opened()
    size = 10_000
    taken = nodes.send(*[bytes(size)] * WINDOW)
    assert taken == 4 * (ONE_FOR_ALL.train // size), "the longest trains"
    batches = sum(-(-len(put.payload) // ZENOH_BATCH) for _, put in nodes.wire if put.urgency is Urgency.DATA)
    assert 12 <= batches <= QUEUE_BATCHES + 1  # one more is being written
    nodes.settle()
    assert nodes.send(bytes(size)) == 1


def test_receiver_grants_again_after_an_eighth_of_the_window_without_a_pause() -> None:
    for count, under_way in ((ACK_EVERY - 1, ACK_EVERY - 1), (ACK_EVERY, 0)):
        nodes = opened()
        assert nodes.send(*[b"x"] * count) == count
        while nodes.wire:
            nodes.carry()
        assert nodes.sender.under_way == under_way


def test_long_packets_are_acknowledged_before_they_use_up_the_budget() -> None:
    nodes = opened()
    sent = ONE_FOR_ALL.budget // 9000 // 2 + 1
    nodes.send(*[bytes(9000)] * sent)
    while nodes.wire:
        nodes.carry()
    assert nodes.sender.under_way < sent


def test_peer_with_a_thread_of_its_own_gets_longer_trains_and_grants_after_two_of_them() -> None:
    nodes = opened()
    nodes.a.pace = ONE_EACH
    size = 10_000
    fit = ONE_EACH.train // size
    assert nodes.send(*[bytes(size)] * WINDOW) == 4 * fit
    assert len(nodes.wire) == 4
    before = nodes.rooms
    nodes.carry()
    nodes.collect()
    assert nodes.rooms == before, "one train is no reason to send a message"
    while nodes.wire:
        nodes.carry()
    assert nodes.sender.under_way <= 2 * fit


def test_grant_rides_on_a_train_that_goes_the_other_way() -> None:
    nodes = opened()
    nodes.answer(b"asks")
    nodes.settle()
    assert nodes.send(*[bytes(9000)] * (RIDE_BYTES // 9000 + 1)) > 0
    nodes.carry()
    assert nodes.wire == []
    assert nodes.answer(b"acknowledges") == 1
    [(sender, put)] = nodes.wire
    assert (sender, put.urgency) == (B, Urgency.DATA)
    assert nodes.sender.under_way > 0
    nodes.carry()
    assert nodes.sender.under_way == 0
    assert nodes.delivered[A][-1] == b"acknowledges"
    nodes.now += 1.0
    nodes.collect()
    assert [name for name, _ in nodes.wire] == [A], "b has granted, a has not yet"


def test_paused_link_grants_nothing_with_a_train_either() -> None:
    nodes = opened()
    nodes.answer(b"asks")
    nodes.settle()
    nodes.b.pause(LINK)
    nodes.send(*[bytes(9000)] * (RIDE_BYTES // 9000 + 1))
    nodes.carry()
    nodes.answer(b"acknowledges")
    nodes.carry()
    assert nodes.sender.under_way > 0


def test_train_whose_grant_is_of_an_earlier_era_is_delivered_and_the_grant_refused() -> None:
    nodes = opened()
    nodes.answer(b"asks")
    nodes.settle()
    grant = Grant(StreamId(0x301, 0, 22, 11, 9), 0, WINDOW, 0, 0, 0)
    train = train_head(StreamId(0x301, 0, 22, 11, 1), 1, grant) + build_body([b"all the same"])
    nodes.a.received(B, LINK, 1, train, nodes.now)
    nodes.collect()
    assert nodes.a.refused == {"stale_era": 1}
    assert nodes.delivered[A][-1] == b"all the same"


def test_earlier_grant_that_a_later_one_overtook_changes_nothing() -> None:
    nodes = opened()
    nodes.send(b"1")
    nodes.settle()
    known = nodes.sender
    nodes.a.received(B, LINK, 0, build_grant(Grant(StreamId(0x301, 0, 22, 11, 1), 0, 1, 0, 0, 0)), nodes.now)
    assert nodes.sender == known
    assert not nodes.a.refused


def test_what_is_under_way_to_a_machine_that_dies_is_lost_once() -> None:
    nodes = opened()
    nodes.send(b"1", b"2")
    nodes.a.peer_gone(B)
    nodes.collect()
    assert nodes.lost == 2
    nodes.a.peer_gone(B)
    nodes.a.unbind(LINK)
    nodes.collect()
    assert nodes.lost == 2
    assert nodes.a.outputs.__len__() == 0


def test_nothing_is_taken_while_the_peer_is_gone() -> None:
    nodes = opened()
    nodes.part()
    assert nodes.send(b"1") == 0


def test_trains_held_back_by_a_partition_are_not_delivered_after_it() -> None:
    nodes = opened()
    nodes.send(b"old")
    held = list(nodes.wire)
    nodes.wire.clear()
    nodes.part()
    nodes.meet()
    nodes.wire += held
    nodes.settle()
    assert nodes.delivered[B] == []
    assert nodes.b.refused["stale_era"] == 1
    nodes.settle()
    assert nodes.send(b"new") == 1
    nodes.settle()
    assert nodes.delivered[B] == [b"new"]
    assert (nodes.sender.sent, nodes.sender.lost, nodes.sender.found) == (2, 1, 0)


def test_what_arrived_before_the_partition_is_found_after_it() -> None:
    nodes = opened()
    nodes.send(b"1", b"2")
    nodes.carry()
    nodes.wire.clear()
    nodes.part()
    nodes.wire.clear()
    assert nodes.lost == 2
    nodes.meet()
    assert nodes.delivered[B] == [b"1", b"2"]
    assert nodes.sender.found == 2


def test_new_process_under_the_same_name_gets_nothing_meant_for_the_old_one() -> None:
    nodes = opened()
    nodes.send(b"for the old one")
    held = list(nodes.wire)
    nodes.wire.clear()
    nodes.b = Exchange(life=33, fabric=0x301)
    nodes.b.bind(LINK, 1, A, nodes.now)
    nodes.meet()
    nodes.wire += held
    nodes.settle()
    assert nodes.delivered[B] == []
    assert nodes.b.refused["stale_life"] == 1
    assert nodes.lost == 1


def test_second_copy_of_a_train_is_a_counted_duplicate() -> None:
    nodes = opened()
    nodes.send(b"1")
    nodes.carry(keep=True)
    nodes.carry()
    assert nodes.delivered[B] == [b"1"]
    assert nodes.b.refused["duplicate"] == 1


def test_lost_train_is_counted_by_its_packets() -> None:
    nodes = opened()
    nodes.send(b"1", b"2")
    nodes.wire.clear()
    nodes.send(b"3")
    nodes.settle()
    assert nodes.delivered[B] == [b"3"]
    assert (nodes.receiver.received, nodes.receiver.missing) == (1, 2)


ENDS = StreamId(0x301, 0, 22, 11, 1)


@pytest.mark.parametrize(
    ("reason", "sender", "link", "direction", "payload"),
    [
        ("bad_message", B, LINK, 0, b"OV"),
        ("other_version", B, LINK, 0, b"OV\7" + build_open(ENDS)[3:]),
        ("other_fabric", B, LINK, 1, build_open(StreamId(0x302, 0, 22, 11, 1))),
        ("unknown_link", B, "another", 1, build_open(ENDS)),
        ("not_the_peer", NodeName("c"), LINK, 1, build_open(ENDS)),
        ("stale_life", B, LINK, 1, build_open(StreamId(0x301, 0, 23, 11, 1))),
        ("stale_life", B, LINK, 1, build_open(StreamId(0x301, 0, 22, 12, 1))),
        ("stale_life", B, LINK, 1, build_train(StreamId(0x301, 9, 22, 11, 1), 0, [b"not asked"])),
        ("wrong_direction", B, LINK, 0, build_open(ENDS)),
        ("wrong_direction", B, LINK, 1, build_grant(Grant(ENDS, 0, 9, 0, 0, 0))),
        ("stale_era", B, LINK, 0, build_grant(Grant(StreamId(0x301, 0, 22, 11, 9), 0, 9, 0, 0, 0))),
        (
            "bad_grant",
            B,
            LINK,
            0,
            build_grant(Grant(StreamId(0x301, MANAGEMENT_SC, 22, 11, 1), 5, 9, 0, 0, 0)),
        ),
        (
            "bad_grant",
            B,
            LINK,
            0,
            build_grant(Grant(StreamId(0x301, MANAGEMENT_SC, 22, 11, 1), 0, 1 << 40, 0, 0, 0)),
        ),
    ],
)
def test_message_of_a_liar_is_refused_by_name(
    reason: str, sender: NodeName, link: str, direction: int, payload: bytes
) -> None:
    nodes = TwoNodes().bind().meet()
    nodes.a.received(sender, link, direction, payload, nodes.now)
    assert dict(nodes.a.refused) == {reason: 1}


def test_bytes_in_transit_of_a_stream_begin_at_none_in_each_era_and_end_with_their_grant() -> None:
    stream = SendStream()

    def grants(upto: int) -> int | None:
        stream_id = StreamId(0x301, 0, stream.life, 11, stream.era)
        return stream.granted(Grant(stream_id, upto, upto + 10, 0, 0, 0))

    for life in (22, 33, 44):
        stream.peer_joined(life)
        assert grants(0) == 0
        stream.sent(3, 300)
        assert grants(3) == 300
        stream.sent(2, 50)
        assert (stream.under_way, stream.bytes_under_way) == (2, 50)
        assert stream.peer_gone() == (2, 50)
        assert (stream.under_way, stream.bytes_under_way) == (0, 0)


def test_packet_right_behind_the_window_is_refused_and_the_last_of_the_window_is_not() -> None:
    nodes = opened()
    end = nodes.sender.sent + WINDOW
    for first, delivered in ((end, []), (end - 1, [b"x"])):
        train = build_train(StreamId(0x301, 0, 11, 22, 1), first, [b"x"])
        nodes.b.received(A, LINK, 0, train, nodes.now)
        assert nodes.b.refused == Counter(over_window=1)
        nodes.collect()
        assert nodes.delivered[B] == delivered


@given(st.binary(max_size=120), st.sampled_from([A, B, NodeName("c")]), st.integers(-1, 3))
def test_any_bytes_from_anybody_are_counted_and_raise_nothing(
    payload: bytes, sender: NodeName, direction: int
) -> None:
    nodes = TwoNodes().bind().meet()
    nodes.a.received(sender, LINK, direction, payload, 0.0)
    assert nodes.a.refused.total() == 1
    assert not [one for one in nodes.a.outputs if not isinstance(one, Put)]


def test_link_is_bound_once_and_in_a_direction_that_exists() -> None:
    nodes = TwoNodes().bind()
    with pytest.raises(ClusterInputError, match=f"^link {LINK} is bound to b already$"):
        nodes.a.bind(LINK, 0, B, 0.0)
    with pytest.raises(ClusterInputError, match="direction 2 is neither 0 nor 1"):
        nodes.a.bind("other", 2, B, 0.0)


@given(st.data())
def test_every_packet_is_delivered_once_or_counted_whatever_the_network_does(data: st.DataObject) -> None:
    """Conservation: messages in any order, lost, twice; partitions and healings; then sent = delivered + counted."""
    nodes = opened()
    base = nodes.sender.sent
    sent = 0
    for _ in range(data.draw(st.integers(1, 30))):
        match data.draw(st.sampled_from(["send", "carry", "twice", "lose", "part", "time"])):
            case "send":
                packets = [b"%d" % (sent + at) for at in range(data.draw(st.integers(1, 5)))]
                sent += nodes.send(*packets)
            case "carry" if nodes.wire:
                nodes.carry(data.draw(st.integers(0, len(nodes.wire) - 1)))
            case "twice" if nodes.wire:
                nodes.carry(0, keep=True)
            case "lose" if nodes.wire:
                nodes.wire.pop(data.draw(st.integers(0, len(nodes.wire) - 1)))
            case "part":
                nodes.part()
                nodes.meet()
            case "time":
                nodes.now += 1.0
                nodes.collect()
    nodes.settle(1.0)
    nodes.part()
    nodes.meet()
    nodes.settle(1.0)
    numbers = [int(packet) for packet in nodes.delivered[B]]
    assert numbers == sorted(set(numbers))
    report = nodes.sender
    assert report.sent - base == sent
    assert report.sent == report.acknowledged + report.lost + report.under_way
    assert report.under_way == 0
    # what was acknowledged or found came, unless its receiver missed it
    assert sent - len(numbers) == report.lost - report.found + nodes.receiver.missing


def test_paused_link_opens_without_room_after_a_partition_and_says_what_had_arrived() -> None:
    nodes = opened()
    nodes.send(b"1", b"2")
    nodes.settle()
    nodes.send(b"3")
    nodes.carry()  # its acknowledgement is lost
    nodes.b.pause(LINK)
    nodes.wire.clear()
    nodes.part()
    nodes.meet()
    assert nodes.a.refused == Counter()
    assert nodes.sender.found == 1
    assert nodes.send(b"4") == 0
    nodes.b.resume(LINK, nodes.now)
    nodes.settle()
    assert nodes.send(b"4") == 1


def test_packets_of_an_earlier_era_are_not_found_among_those_that_a_later_one_lost() -> None:
    nodes = opened()
    nodes.send(b"1", b"2", b"3")
    nodes.settle()
    nodes.part()
    nodes.meet()
    nodes.send(b"4", b"5", b"6", b"7")
    nodes.wire.clear()
    nodes.part()
    nodes.meet()
    assert (nodes.lost, nodes.sender.lost, nodes.sender.found) == (4, 4, 0)


def test_receiver_that_says_more_had_arrived_than_was_sent_finds_nothing() -> None:
    stream = SendStream()

    def granted(before_era: int, before: int) -> None:
        stream.peer_joined(22)
        stream_id = StreamId(0x301, 0, 22, 11, stream.era)
        assert stream.granted(Grant(stream_id, 0, 10, 0, before_era, before)) == 0

    granted(0, 0)
    stream.sent(3, 300)
    stream.peer_gone()
    granted(1, 4)
    assert (stream.lost, stream.found) == (3, 0)
