"""`lnetctl ping`, `discover` and `import --exec` on one node: questions to peers, whose answers take time."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from lnet.base.errors import CommandError, ProtocolError
from lnet.base.nid import Nid
from lnet.lnetctl.commands import Document, nid_of, number_of
from lnet.lnetctl.documents import LO_NID
from lnet.node.node import LnetNode
from lnet.objects.objects import is_multi_rail
from lnet.objects.stats import Report, SendDone, SendFailed
from lnet.settings.dlc import PING_S, DiscoveryRequest, parse_dlc
from lnet.settings.yaml_text import format_yaml
from lnet.wire.ping import MAX_REPLY, PING_MATCH_BITS, RESERVED_PORTAL, PingInfo

MAX_TIMEOUT_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a command."""

    output: str
    """YAML, or nothing."""
    errors: tuple[CommandError, ...] = ()
    """The parts that failed."""
    exit: int = 0


@dataclass(slots=True)
class _Answers:
    """The answers to several questions."""

    entries: dict[str, list[Document]] = field(default_factory=dict)
    errors: list[CommandError] = field(default_factory=list)

    async def add(self, section: str, question: Awaitable[Document]) -> None:
        """Wait for one answer, or for its failure."""
        try:
            self.entries.setdefault(section, []).append(await question)
        except CommandError as error:
            self.errors.append(error)

    def answer(self) -> Answer:
        """Return all of it; the exit code is that of the first failure."""
        known = {section: entries for section, entries in self.entries.items() if entries}
        return Answer(format_yaml(known), tuple(self.errors), self.errors[0].exit if self.errors else 0)


class Questions:
    """The questions of one node."""

    def __init__(
        self,
        node: LnetNode,
        report_of: Callable[[int], Awaitable[Report]],
        waiting: set[asyncio.Future[Any]],
    ) -> None:
        """Make it.

        Args:  report_of: waits for the report of a message. waiting: futures that fail when the node ends.
        """
        self._waiting = waiting
        self._node = node
        self._report_of = report_of

    async def ping(
        self, nid: str, timeout_s: float = PING_S, source: str | None = None, *, to: str = "ping"
    ) -> Document:
        """Ask a node for its NIDs.

        Args:    to: what failed, in errors.
        Raises:  CommandError: EINVAL: not a NID, or no source here. EIO: no answer. EPROTO: an invalid answer.
        """
        if nid.strip() == LO_NID:
            return _entry(LO_NID, self._node.lnd.rails.info())
        target = nid_of(nid)
        msg_id = self._node.get(
            target,
            MAX_REPLY,
            match_bits=PING_MATCH_BITS,
            ptl_index=RESERVED_PORTAL,
            timeout_s=timeout_s,
            source=self._source_of(source, target),
        )
        report = await self._report_of(msg_id)
        if isinstance(report, SendFailed):
            raise CommandError(errno.EIO, f"failed to {to} {target}: Input/output error ({report.reason})")
        try:
            info = PingInfo.parse(report.data if isinstance(report, SendDone) else b"")
        except ProtocolError as error:
            raise CommandError(errno.EPROTO, f"failed to {to} {target}: {error}") from None
        return _entry(str(info.nids[0][0] if info.nids else target), info)

    def _source_of(self, source: str | None, target: Nid) -> Nid | None:
        if source is None:
            return None
        wanted = nid_of(source)
        ni = self._node.lnd.nis.get(wanted.net)
        own = ", ".join(str(nid) for one in self._node.lnd.nis.values() for nid in one.nids)
        if ni is None or wanted not in ni.nids:
            raise CommandError(errno.EINVAL, f"{wanted} is not a NID of this node (known: {own or 'none'})")
        if wanted.net != target.net:
            raise CommandError(errno.EINVAL, f"{target} cannot be reached from {wanted}: another network")
        return wanted

    async def discover(self, nid: str, *, force: bool = False, most: int | None = None) -> Document:
        """Discover a peer; one on a network with channel bonding only tells its NIDs.

        Raises:  CommandError: EINVAL: not a NID. EIO: it was not discovered.
        """
        target = nid_of(nid)
        lnd = self._node.lnd
        ni = lnd.nis.get(target.net)
        if not is_multi_rail(ni) or (ni is not None and target in ni.nids):
            document = await self.ping(nid, to="discover")
            return {**document, "peer ni": document["peer ni"][:most]}
        end: asyncio.Future[SendFailed | None] = asyncio.get_running_loop().create_future()
        lnd.at(self._node.time())
        peer = lnd.rails.ask(target, lambda failed: _end(end, failed), force=force)
        self._node.poll()
        self._waiting.add(end)
        try:
            failed = await end
        finally:
            self._waiting.discard(end)
        if failed is not None:
            raise CommandError(
                errno.EIO, f"failed to discover {target}: Input/output error ({failed.reason})"
            )
        return {
            "primary nid": str(peer.primary),
            "Multi-Rail": peer.multi_rail,
            "peer ni": [{"nid": str(known)} for known in list(peer.nis)[:most]],
        }

    # --- commands ------------------------------------------------------------------------------------------

    async def run_ping(self, args: Mapping[str, Any]) -> Answer:
        """Ask nodes one after the other. Args: nids, timeout_s, source.

        Raises:  CommandError: EINVAL: wrong arguments.
        """
        answers = _Answers()
        timeout_s = _timeout(args.get("timeout_s", PING_S))
        source = args.get("source")
        for nid in _nids(args):
            await answers.add("ping", self.ping(nid, timeout_s, None if source is None else str(source)))
        return answers.answer()

    async def run_discover(self, args: Mapping[str, Any]) -> Answer:
        """Discover peers one after the other. Args: nids, force, most.

        Raises:  CommandError: EINVAL: wrong arguments.
        """
        answers = _Answers()
        most = args.get("most")
        count = None if most is None else number_of("max", str(most))
        if count is not None and count < 1:
            raise CommandError(errno.EINVAL, f"max {count}, expected 1 or more")
        for nid in _nids(args):
            await answers.add("discover", self.discover(nid, force=bool(args.get("force")), most=count))
        return answers.answer()

    async def run_yaml(self, args: Mapping[str, Any]) -> Answer:
        """Do the pings and the discoveries of a document. Args: text.

        Raises:  CommandError: EINVAL: it is wrong, or has neither.
        """
        document = parse_dlc(str(args.get("text", "")), add=False)
        if not document.pings and not document.discoveries:
            raise CommandError(errno.EINVAL, "nothing to execute: no section ping or discover")
        for question in document.pings:
            _timeout(question.timeout_s)
        answers = _Answers()
        for question in document.pings:
            await answers.add("ping", self._asked(question))
        for question in document.discoveries:
            await answers.add("discover", self.discover(question.nid, force=question.force))
        return answers.answer()

    def _asked(self, question: DiscoveryRequest) -> Awaitable[Document]:
        return self.ping(question.nid, question.timeout_s, question.source)

    COMMANDS: ClassVar[Mapping[str, Callable[[Questions, Mapping[str, Any]], Awaitable[Answer]]]] = {
        "ping": run_ping,
        "discover": run_discover,
        "exec_yaml": run_yaml,
    }
    """The commands of the control API that take time."""


def _end(end: asyncio.Future[SendFailed | None], failed: SendFailed | None) -> None:
    if not end.done():
        end.set_result(failed)


def _entry(primary: str, info: PingInfo) -> Document:
    return {
        "primary nid": primary,
        "Multi-Rail": info.multi_rail,
        "peer ni": [{"nid": str(known)} for known, _ in info.nids],
    }


def _nids(args: Mapping[str, Any]) -> list[str]:
    nids = args.get("nids")
    if not isinstance(nids, list) or not nids:
        raise CommandError(errno.EINVAL, "nids: expected a list of NIDs")
    return [str(nid) for nid in nids]


def _timeout(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 < value <= MAX_TIMEOUT_S:
        shown = f"{value:g} s" if isinstance(value, int | float) else repr(value)
        raise CommandError(
            errno.EINVAL, f"timeout {shown}, expected more than 0 and at most {MAX_TIMEOUT_S:g} s"
        )
    return float(value)
