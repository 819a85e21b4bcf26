"""What `down` and `prune` say was removed."""

from __future__ import annotations

from opavnic.state.removed import Removed


def test_of_many_objects_of_a_kind_the_first_are_named_and_the_rest_counted() -> None:
    names = [f"opavnic-x-h{number}" for number in range(1, 1001)]
    removed = Removed("x", namespaces=names, netdevs=[f"net in {name}" for name in names[:32]])
    lines = removed.lines()
    assert lines[:32] == [f"interface net in opavnic-x-h{number}" for number in range(1, 33)]
    assert lines[32:] == [
        *(f"namespace opavnic-x-h{number}" for number in range(1, 5)),
        "... and 996 more namespaces",
    ]
