"""Queueing disciplines of the interfaces of a network namespace.

Source: linux/pkt_sched.h, linux/rtnetlink.h. Times are in the kernel's ticks of 64 ns (PSCHED_SHIFT).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev import netlink as nl
from hfi_sim.netdev.link_client import LinkClient

_RTM_NEWQDISC, _RTM_DELQDISC, _RTM_GETQDISC = 36, 37, 38
_RTM_NEWTCLASS, _RTM_GETTCLASS = 40, 42
_TCMSG: Final = struct.Struct("=BxxxiII4x")
"""Family, ifindex, handle, parent."""
_ROOT: Final = 0xFFFFFFFF
_TCA_KIND: Final = 1
_TCA_OPTIONS: Final = 2
_RATE: Final = struct.Struct("=xBHhHI")
"""tc_ratespec: link layer, overhead, alignment of cells, least packet, bytes a second."""
_ETHERNET: Final = 1
_TBF: Final = struct.Struct("=III")
"""The rest of tc_tbf_qopt after its two rates: limit, buffer, MTU."""
_HTB: Final = struct.Struct("=IIIII")
"""tc_htb_glob: version, rate2quantum, class of the rest, and two that the kernel fills."""
_HTB_CLASS: Final = struct.Struct("=IIIII")
"""The rest of tc_htb_opt after its two rates: buffer, buffer of the ceiling, quantum, level, priority."""
_PRIO: Final = struct.Struct("=i16s")
_PRIOMAP: Final = (1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
_PARMS: Final = 1
_HTB_INIT: Final = 2
_TBF_BURST: Final = 6
_TBF_RATE64: Final = 4
_HTB_RATE64, _HTB_CEIL64 = 6, 7
_U64: Final = struct.Struct("=Q")
_TICK_NS: Final = 64
_ROUNDED: Final = 500
"""The kernel computes how long a burst takes by a multiplication: within this part of it."""


@dataclass(frozen=True, slots=True)
class QdiscClass:
    """A class of htb, or a band of prio."""

    minor: int
    rate: int = 0
    """Bytes a second, of htb."""
    ceiling: int = 0
    """Bytes a second with what others leave, of htb."""
    burst: int = 0
    """Bytes."""
    priority: int = 0
    qdisc: Qdisc | None = None


@dataclass(frozen=True, slots=True)
class Qdisc:
    """A queueing discipline, with those of its classes."""

    kind: str
    limit: int = 0
    """Packets of pfifo, else bytes."""
    rate: int = 0
    """Bytes a second, of tbf."""
    burst: int = 0
    """Bytes."""
    bands: int = 0
    default: int = 0
    """The class of what no filter has classified."""
    classes: tuple[QdiscClass, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelQdisc:
    """A queueing discipline or a class, as the kernel has it."""

    kind: str
    ifindex: int
    handle: int
    parent: int
    options: bytes

    @property
    def is_root(self) -> bool:
        """Whether it is the one of an interface."""
        return self.parent == _ROOT


class QdiscClient(LinkClient):
    """Reads and sets queueing disciplines of one namespace. A request that the kernel refuses raises NetdevError."""

    def qdiscs(self) -> list[KernelQdisc]:
        """Return those of all interfaces."""
        body = _TCMSG.pack(0, 0, 0, 0)
        answers = self._exchange(_RTM_GETQDISC, nl.NLM_F_DUMP | nl.NLM_F_ACK, body, "list the qdiscs")
        return [_parse(data) for kind, data in answers if kind == _RTM_NEWQDISC]

    def kind_of(self, ifindex: int) -> str:
        """Return the kind of the queueing discipline of an interface; empty: it is gone, or has none."""
        return next((one.kind for one in self.qdiscs() if one.ifindex == ifindex and one.is_root), "")

    def is_set(self, ifindex: int, qdisc: Qdisc) -> bool:
        """Return whether an interface has a queueing discipline; it may have more classes than that."""
        here = [one for one in self.qdiscs() if one.ifindex == ifindex]
        root = next((one for one in here if one.is_root), None)
        if root is None or not _is(root, qdisc):
            return False
        there = {one.handle & 0xFFFF: one for one in self._classes(ifindex)} if qdisc.kind == "htb" else {}
        leaves = {one.parent: one for one in here}
        for its in qdisc.classes:
            if qdisc.kind == "htb" and not _is_class(there.get(its.minor), its):
                return False
            leaf = leaves.get(root.handle | its.minor)
            if its.qdisc is not None and (leaf is None or not _is(leaf, its.qdisc)):
                return False
        return True

    def _classes(self, ifindex: int) -> list[KernelQdisc]:
        body = _TCMSG.pack(0, ifindex, 0, 0)
        answers = self._exchange(_RTM_GETTCLASS, nl.NLM_F_DUMP | nl.NLM_F_ACK, body, "list the classes")
        return [_parse(data) for kind, data in answers if kind == _RTM_NEWTCLASS]

    def set_qdisc(self, ifindex: int, qdisc: Qdisc) -> None:
        """Give an interface a queueing discipline, in place of what it has. Where the kernel lacks it, that stays."""
        taken = {one.handle for one in self.qdiscs() if one.ifindex == ifindex}
        handle = 1 << 16  # 1: as people call it
        if handle in taken:
            free = next(major << 16 for major in range(2, len(taken) + 3) if major << 16 not in taken)
            self._add(ifindex, free, _ROOT, qdisc, nl.NLM_F_CREATE_REPLACE)
            self.remove_qdisc(ifindex)
        self._add(ifindex, handle, _ROOT, qdisc, nl.NLM_F_CREATE_REPLACE)
        for its in qdisc.classes:
            if qdisc.kind == "htb":
                body = _body(ifindex, handle | its.minor, handle, "htb", _class_options(its))
                what = f"add class {its.minor:x} of qdisc htb"
                self._exchange(_RTM_NEWTCLASS, nl.NLM_F_CREATE_EXCL | nl.NLM_F_ACK, body, what)
            if its.qdisc is not None:
                self._add(ifindex, 0, handle | its.minor, its.qdisc, nl.NLM_F_CREATE_EXCL)

    def _add(self, ifindex: int, handle: int, parent: int, qdisc: Qdisc, flags: int) -> None:
        options = _OPTIONS[qdisc.kind](qdisc) if qdisc.kind in _OPTIONS else None
        body = _body(ifindex, handle, parent, qdisc.kind, options)
        try:
            self._exchange(_RTM_NEWQDISC, flags | nl.NLM_F_ACK, body, f"set qdisc {qdisc.kind}")
        except NetdevError as error:
            if error.errno == errno.ENOENT:
                raise NetdevError(f"this kernel has no qdisc {qdisc.kind}", error.errno) from None
            raise

    def remove_qdisc(self, ifindex: int) -> None:
        """Let an interface have the kernel's own queueing discipline again."""
        body = _TCMSG.pack(0, ifindex, 0, _ROOT)
        self._exchange(_RTM_DELQDISC, nl.NLM_F_ACK, body, "remove the qdisc")


def _body(ifindex: int, handle: int, parent: int, kind: str, options: bytes | None) -> bytes:
    told = _TCMSG.pack(0, ifindex, handle, parent) + nl.build_attribute(_TCA_KIND, kind.encode() + b"\0")
    return told if options is None else told + nl.build_attribute(_TCA_OPTIONS, options)


def _parse(message: bytes) -> KernelQdisc:
    _, ifindex, handle, parent = _TCMSG.unpack_from(message, nl.HEADER.size)
    found = dict(nl.attributes(message, _TCMSG.size))
    kind = found.get(_TCA_KIND, b"").rstrip(b"\0").decode(errors="replace")
    return KernelQdisc(kind, ifindex, handle, parent, found.get(_TCA_OPTIONS, b""))


# --- options -------------------------------------------------------------------------------------------------


def _ticks(size: int, rate: int) -> int:
    """Return how long `size` bytes take, in ticks."""
    return size * 1_000_000_000 // max(rate, 1) // _TICK_NS


def _rate(rate: int) -> bytes:
    return _RATE.pack(_ETHERNET, 0, -1, 0, min(rate, 0xFFFFFFFF))


def _rate64(kind: int, rate: int) -> bytes:
    return nl.build_attribute(kind, _U64.pack(rate)) if rate > 0xFFFFFFFF else b""


def _fifo_options(qdisc: Qdisc) -> bytes:
    return nl.U32.pack(qdisc.limit)


def _tbf_options(qdisc: Qdisc) -> bytes:
    told = _rate(qdisc.rate) + bytes(_RATE.size)
    told += _TBF.pack(qdisc.limit, _ticks(qdisc.burst, qdisc.rate), 0)
    burst = nl.build_attribute(_TBF_BURST, nl.U32.pack(qdisc.burst))
    return nl.build_attribute(_PARMS, told) + burst + _rate64(_TBF_RATE64, qdisc.rate)


def _prio_options(qdisc: Qdisc) -> bytes:
    return _PRIO.pack(qdisc.bands, bytes(min(band, qdisc.bands - 1) for band in _PRIOMAP))


def _htb_options(qdisc: Qdisc) -> bytes:
    return nl.build_attribute(_HTB_INIT, _HTB.pack(3, 10, qdisc.default, 0, 0))


def _class_options(its: QdiscClass) -> bytes:
    buffers = _ticks(its.burst, its.rate), _ticks(its.burst, its.ceiling)
    told = _rate(its.rate) + _rate(its.ceiling) + _HTB_CLASS.pack(*buffers, 0, 0, its.priority)
    more = _rate64(_HTB_RATE64, its.rate) + _rate64(_HTB_CEIL64, its.ceiling)
    return nl.build_attribute(_PARMS, told) + more


_OPTIONS: Final[Mapping[str, Callable[[Qdisc], bytes]]] = {
    "pfifo": _fifo_options,
    "bfifo": _fifo_options,
    "tbf": _tbf_options,
    "prio": _prio_options,
    "htb": _htb_options,
}
"""How the options of each kind that has some are told to the kernel; it tells them likewise."""


def _is(there: KernelQdisc, wanted: Qdisc) -> bool:
    """Return whether what the kernel has is what is wanted, but for its classes."""
    if there.kind != wanted.kind:
        return False
    if wanted.kind == "tbf":
        (buffer, *rest), (expected, *like) = (
            _numbers_of_tbf(there.options),
            _numbers_of_tbf(_tbf_options(wanted)),
        )
        return rest == like and abs(buffer - expected) <= max(2, expected // _ROUNDED)
    if wanted.kind == "htb":
        parts = (
            dict(nl.nested(options)).get(_HTB_INIT, b"") for options in (there.options, _htb_options(wanted))
        )
        return len({part[8:12] for part in parts}) == 1
    told = _OPTIONS[wanted.kind](wanted) if wanted.kind in _OPTIONS else b""
    return there.options[: len(told)] == told


def _numbers_of_tbf(options: bytes) -> tuple[int, ...]:
    found = dict(nl.nested(options))
    told = found.get(_PARMS, b"")
    limit, buffer, _ = _TBF.unpack_from(told, 2 * _RATE.size)
    return buffer, limit, _rate_of(told, 0, found.get(_TBF_RATE64))


def _is_class(there: KernelQdisc | None, wanted: QdiscClass) -> bool:
    return there is not None and _numbers_of_class(there.options) == _numbers_of_class(_class_options(wanted))


def _numbers_of_class(options: bytes) -> tuple[object, ...]:
    found = dict(nl.nested(options))
    told = found.get(_PARMS, b"")
    buffer, ceiling_buffer, _, _, priority = _HTB_CLASS.unpack_from(told, 2 * _RATE.size)
    rates = _rate_of(told, 0, found.get(_HTB_RATE64)), _rate_of(told, _RATE.size, found.get(_HTB_CEIL64))
    return buffer, ceiling_buffer, priority, rates


def _rate_of(told: bytes, offset: int, wide: bytes | None) -> int:
    if wide is not None:
        return int(_U64.unpack(wide)[0])
    return int(_RATE.unpack_from(told, offset)[4])
