"""A kernel's time, decided here: the messages, without a kernel."""

from __future__ import annotations

import pytest

from opavnic.kernel.time_travel import DAY_ONE_NS, MESSAGE_SIZE, Calendar, TimeMessage, TimeOp


class Given:
    """A calendar with a clock that the test sets."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.calendar = Calendar(lambda: self.now_ns)

    def says(self, op: TimeOp, number: int = 7, time_ns: int = 0) -> tuple[int, int, int] | None:
        answer = self.calendar.take(TimeMessage(op, number, time_ns))
        return None if answer is None else tuple(answer)


def test_a_message_has_16_bytes_and_is_read_as_it_was_built() -> None:
    message = TimeMessage(TimeOp.RUN, 3, 1 << 62)
    assert len(message.build()) == MESSAGE_SIZE == 16
    assert TimeMessage.parse(message.build()) == message


@pytest.mark.parametrize("op", [op for op in TimeOp if op is not TimeOp.ACK])
def test_each_message_is_acknowledged_by_its_number(op: TimeOp) -> None:
    answer = Given().says(op, 42)
    assert answer is not None
    assert answer[:2] == (TimeOp.ACK, 42)


def test_an_acknowledgement_is_not_answered() -> None:
    assert Given().says(TimeOp.ACK) is None


def test_the_kernel_is_told_the_time_and_one_time_of_day_for_all_runs() -> None:
    given = Given()
    given.now_ns = 5
    assert given.says(TimeOp.GET) == (TimeOp.ACK, 7, 5)
    assert given.says(TimeOp.GET_TOD) == (TimeOp.ACK, 7, DAY_ONE_NS + 5)


def test_it_runs_at_the_time_that_it_has_asked_for_last() -> None:
    given = Given()
    given.says(TimeOp.REQUEST, time_ns=900)
    given.says(TimeOp.REQUEST, time_ns=500)
    given.says(TimeOp.WAIT)
    assert given.calendar.requested_ns == 500
    assert given.calendar.run() == TimeMessage(TimeOp.RUN, 1, 500)
    assert (given.calendar.requested_ns, given.calendar.is_waiting) == (None, False)


def test_time_never_goes_back_where_the_clock_lags_behind_a_run() -> None:
    given = Given()
    given.says(TimeOp.REQUEST, time_ns=500)
    given.says(TimeOp.WAIT)
    given.calendar.run()
    given.now_ns = 499
    assert given.says(TimeOp.GET) == (TimeOp.ACK, 7, 500)


@pytest.mark.parametrize("said", [[], [TimeOp.REQUEST], [TimeOp.WAIT]])
def test_a_kernel_that_does_not_wait_for_a_time_is_not_told_to_run(said: list[TimeOp]) -> None:
    given = Given()
    for op in said:
        given.says(op)
    with pytest.raises(ValueError, match="does not wait"):
        given.calendar.run()
