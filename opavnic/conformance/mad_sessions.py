"""Recorded conversations with the management agents of an HFI: requests, and what was answered. JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from hfi_sim.base.types import PKEY_FULL_MANAGEMENT
from hfi_sim.wire.mad.header import SMP_CLASSES, MadHeader, method_of

ARM: Final = "arm"
"""An event: the neighbour is ARMED."""
LINK: Final = "link"
"""An event: the link, which the request before has taken down, is up again."""
EVENTS: Final = (ARM, LINK)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response."""

    mad: bytes
    """Without the zeros at its end, and with transaction id 0; so is the answer."""
    answer: bytes | None
    """None: there was none."""
    length: int = 0
    """Bytes of the response."""
    pkey: int = PKEY_FULL_MANAGEMENT

    @classmethod
    def of(cls, mad: bytes, pkey: int, answer: bytes | None) -> Self:
        """Return what is recorded of an exchange."""
        short = None if answer is None else answer.rstrip(b"\0")
        return cls(mad.rstrip(b"\0"), short, 0 if answer is None else len(answer), pkey)

    @property
    def is_smp(self) -> bool:
        """Whether it is of subnet management."""
        return self.mad[1] in SMP_CLASSES

    @property
    def method(self) -> int:
        """What is done with the attribute."""
        return method_of(self.mad)

    @property
    def attribute(self) -> int:
        """The number of the attribute."""
        return self._head.attr_id

    @property
    def attr_mod(self) -> int:
        """The attribute modifier."""
        return self._head.attr_mod

    @property
    def _head(self) -> MadHeader:
        return MadHeader.parse(self.mad.ljust(MadHeader.SIZE, b"\0"))

    @property
    def response(self) -> bytes | None:
        """The response, as long as it was."""
        return None if self.answer is None else self.answer.ljust(self.length, b"\0")


Step = Exchange | str


@dataclass(frozen=True, slots=True)
class MadSession:
    """A conversation, from the time at which the link is up for the first time."""

    of: str
    """sma or pma."""
    name: str
    steps: Sequence[Step]

    @classmethod
    def parse(cls, document: dict[str, Any]) -> Self:
        """Read a session. Raises KeyError, TypeError, ValueError: something is missing or wrong."""
        return cls(str(document["of"]), str(document["session"]), [_step(step) for step in document["steps"]])

    def to_json(self) -> dict[str, Any]:
        """Return the session as a JSON object."""
        steps = [step if isinstance(step, str) else _to_json(step) for step in self.steps]
        return {"of": self.of, "session": self.name, "steps": steps}


def _step(document: Any) -> Step:
    if isinstance(document, str):
        if document not in EVENTS:
            raise ValueError(f'a step is a request, "arm" or "link", not "{document}"')
        return document
    answer = document["answer"]
    return Exchange(
        bytes.fromhex(document["mad"]),
        None if answer is None else bytes.fromhex(answer),
        int(document.get("length", 0)),
        int(document.get("pkey", "0xffff"), 0),
    )


def _to_json(step: Exchange) -> dict[str, Any]:
    document: dict[str, Any] = {"mad": step.mad.hex(), "answer": step.answer and step.answer.hex()}
    if step.answer is not None:
        document["length"] = step.length
    if step.pkey != PKEY_FULL_MANAGEMENT:
        document["pkey"] = hex(step.pkey)
    return document
