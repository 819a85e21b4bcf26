"""What a client of subnet administration holds there: placed, refused, cancelled, and placed anew."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.management.sa.client import BACKOFF_MAX_S, Ask, OrderState, SaClient, SaOrder, table_of
from hfi_sim.wire.mad.attributes import SaAttrId, SaStatus
from hfi_sim.wire.mad.header import Mad, MadStatus, Method
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.records import InformInfo, ServiceRecord


def service(number: int) -> SaOrder:
    record = ServiceRecord(service_id=number)
    return SaOrder(SaAttrId.SERVICE_RECORD, record, ServiceRecord.mask("service_id"))


def response(ask: Ask, status: int = MadStatus.OK) -> Mad:
    message = ask.message
    header = replace(message.header, method=message.header.method | 0x80, status=status)
    return replace(message, header=header).mad()


def sent(client: SaClient, now: float = 0.0) -> Ask:
    ask = client.next_ask(now)
    assert ask is not None
    return ask


def holding(key: str = "s", order: SaOrder | None = None) -> SaClient:
    """Return a client whose order is held."""
    client = SaClient()
    client.place(key, order or service(5))
    ask = sent(client)
    client.answered(0.0, ask.ticket, response(ask))
    return client


def test_order_is_placed_once_and_held_with_its_answer() -> None:
    client = SaClient()
    client.place("s", service(5))
    ask = sent(client)
    assert ask.message.header.method == Method.SET
    assert client.next_ask(0.0) is None
    client.answered(0.0, ask.ticket, response(ask))
    held = client.orders["s"]
    assert held.state is OrderState.HELD
    assert ServiceRecord.parse(held.answer).service_id == 5
    client.place("s", service(5))
    assert client.next_ask(1.0) is None, "nothing is new"


def test_refused_order_says_why_and_is_tried_again_later_and_later() -> None:
    client = SaClient()
    client.place("s", service(5))
    now, waited = 0.0, []
    for _ in range(8):
        ask = sent(client, now)
        client.answered(now, ask.ticket, response(ask, SaStatus.DENIED))
        assert client.orders["s"].error == "denied (0x0700)"
        assert client.next_ask(now) is None
        due = client.next_wake()
        assert due is not None
        waited.append(due - now)
        now = due
    assert waited == sorted(waited)
    assert waited[-1] == BACKOFF_MAX_S
    ask = sent(client, now)
    client.answered(now, ask.ticket, response(ask))
    assert client.orders["s"].error == ""


def test_unanswered_order_says_so() -> None:
    client = SaClient()
    client.place("s", service(5))
    client.answered(0.0, sent(client).ticket, None)
    assert client.orders["s"].error == "no answer"


def test_dropped_order_is_deleted_there_and_then_here() -> None:
    client = holding()
    client.drop("s")
    ask = sent(client)
    assert ask.message.header.method == Method.DELETE
    client.answered(0.0, ask.ticket, response(ask))
    assert not client.orders
    assert client.next_wake() is None


def test_subscription_ends_by_a_set_of_its_own() -> None:
    begin, end = InformInfo(trap=64), InformInfo(trap=64, subscribe=0)
    client = holding("n", SaOrder(SaAttrId.INFORM_INFO, begin, 0, cancels_with=end))
    client.drop("n")
    ask = sent(client)
    assert ask.message.header.method == Method.SET
    assert ask.message.one(InformInfo).subscribe == 0


def test_order_wanted_again_while_it_is_cancelled_is_placed_again() -> None:
    client = holding()
    client.drop("s")
    ask = sent(client)
    client.place("s", service(5))
    client.answered(0.0, ask.ticket, response(ask))
    assert sent(client).message.header.method == Method.SET


def test_drop_that_the_administration_knows_of_is_not_told() -> None:
    client = holding()
    client.drop("s", tell=False)
    assert client.next_ask(0.0) is None


def test_reset_places_what_was_held_and_ignores_what_comes_late() -> None:
    client = holding()
    client.place("t", service(6))
    late = sent(client)
    client.reset()
    client.answered(0.0, late.ticket, response(late))
    assert {held.state for held in client.orders.values()} == {OrderState.NEW}
    again = [sent(client), sent(client)]
    assert [ask.message.one(ServiceRecord).service_id for ask in again] == [5, 6]


def test_answer_to_an_order_that_has_given_way_says_nothing_of_the_new_one() -> None:
    client = SaClient()
    client.place("s", service(5))
    old = sent(client)
    client.place("s", service(6))
    client.answered(0.0, old.ticket, response(old))
    assert client.orders["s"].state is OrderState.NEW
    assert sent(client).message.one(ServiceRecord).service_id == 6


def test_reset_gives_questions_up() -> None:
    client = SaClient()
    heard: list[SaMessage | None] = []
    for _ in range(2):
        client.ask(table_of(SaAttrId.NODE_RECORD), heard.append)
    sent(client)
    client.reset()
    assert heard == [None, None]


@given(st.binary(max_size=80))
def test_any_response_is_taken_without_an_error(data: bytes) -> None:
    client = SaClient()
    client.place("s", service(5))
    ask = sent(client)
    client.answered(0.0, ask.ticket, Mad(ask.message.header, data))
    client.answered(0.0, 77, Mad(ask.message.header, data))
    assert client.orders["s"].state in (OrderState.HELD, OrderState.NEW)
