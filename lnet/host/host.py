"""LNet on a host of a lab: the node, the services it provides, and the commands that take time."""

from __future__ import annotations

import asyncio
import errno
import inspect
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hfi_sim.base.clock import Clock
from hfi_sim.base.core_runner import failure_text
from lnet.base.errors import CommandError
from lnet.base.nid import Net, Nid
from lnet.host.questions import Answer, Questions
from lnet.lnetctl import COMMANDS, Document, Lnetctl, OwnerOf, no_owner
from lnet.lnetctl.documents import connection_document
from lnet.node.node import LnetInterface, LnetNode, Resolver
from lnet.node.selftest import MATCH_BITS, Selftest, SelftestResult
from lnet.objects.stats import Report, SendDone, SendFailed, TxKind
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding, NetworkGroup
from lnet.settings.targets import KibTarget
from lnet.settings.yaml_text import format_yaml
from lnet.wire.lnet_hdr import LnetHdr

MAX_SELFTEST_S = 600.0


class LnetHost:
    """One host's LNet as `opavnic lnetctl` sees it."""

    def __init__(
        self,
        name: str,
        interfaces: Iterable[LnetInterface],
        resolve: Resolver,
        clock: Clock,
        rng: random.Random,
        *,
        stamp: int,
        config: LndConfig | None = None,
        pkey: int,
        owner_of: OwnerOf = no_owner,
        bonding_of: Callable[[Net], Bonding] = lambda net: Bonding.O2IBS,
        networks: Sequence[NetworkGroup] = (),
        targets: Sequence[KibTarget] = (),
    ) -> None:
        """Start LNet with the networks and targets of the lab file."""
        self.node = LnetNode(
            name,
            interfaces,
            resolve,
            clock,
            rng,
            on_report=self._on_report,
            stamp=stamp,
            config=config,
            pkey=pkey,
            get_handler=self._read,
            on_failure=self._failed,
        )
        self.ctl = Lnetctl(self.node, owner_of, bonding_of, networks, targets)
        self.ctl.start()
        self._asking: set[asyncio.Future[Any]] = set()
        self.questions = Questions(self.node, self._report_of, self._asking)
        self._over: CommandError | None = None
        self._waiting: dict[int, asyncio.Future[Report]] = {}
        self._selftests: dict[Selftest, asyncio.Future[SelftestResult]] = {}

    def said(self) -> str:
        """Return the NIDs of this host with the state of those that are not up, or why LNet is down, in a line."""
        if error := self._failure():
            return str(error)
        if not self.ctl.configured:
            return "not configured"
        nis = [ni for net in self.ctl.net_show()["net"][1:] for ni in net["local NI(s)"]]
        said = [ni["nid"] + (f" ({ni['status']})" if ni["status"] != "up" else "") for ni in nis]
        return ", ".join(said) or "no network"

    def detail(self) -> Document:
        """Return all there is to see of LNet on this host; where it is down, only why."""
        if error := self._failure():
            return {"down": str(error)}
        if not self.ctl.configured:
            return {"down": f"LNet on {self.node.name} is not configured"}
        return {
            **self.ctl.net_status(),
            **self.ctl.net_show(verbose="2"),
            **self.ctl.peer_show(verbose="3"),
            "connections": [connection_document(conn) for conn in self.node.lnd.conns],
        }

    def shutdown(self) -> None:
        """Leave the ports; fail all commands that wait for a message."""
        self._end(CommandError(errno.ESHUTDOWN, f"LNet on {self.node.name} has ended"))

    def crash(self) -> None:
        """Stop as if the host had crashed: no peer is told, and commands fail until another one takes the place."""
        text = f"host {self.node.name} has crashed, LNet is down until the fault ends"
        self._end(CommandError(errno.ESHUTDOWN, text))

    def _end(self, error: CommandError) -> None:
        if self._over is None:
            self._over = error
            self.node.shutdown()
            self._refuse_waiting(error)

    def _failed(self) -> None:
        error = self._failure()
        if error is not None:
            self._refuse_waiting(error)

    def _failure(self) -> CommandError | None:
        """Return the error for every command after LNet on this host has ended or failed, or None."""
        if self._over is not None:
            return self._over
        failure = self.node.failure
        if failure is None:
            return None
        text = f"LNet on {self.node.name} has failed ({failure_text(failure)}); the log says where"
        return CommandError(errno.EIO, text)

    def _check_running(self) -> None:
        error = self._failure()
        if error is not None:
            raise error

    def _refuse_waiting(self, error: CommandError) -> None:
        waiting: list[asyncio.Future[Any]] = [
            *self._waiting.values(),
            *self._selftests.values(),
            *self._asking,
        ]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # mark it as retrieved: the waiting task may have ended

    def _on_report(self, report: Report) -> None:
        if isinstance(report, SendDone | SendFailed):
            waiter = self._waiting.pop(report.msg_id, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(report)
                return
        for selftest in self._selftests:
            if selftest.on_report(report):
                return

    def _read(self, nid: Nid, hdr: LnetHdr) -> bytes | int:
        if hdr.match_bits == MATCH_BITS:
            return bytes(hdr.sink_length)
        return -errno.ENOENT

    def _report_of(self, msg_id: int) -> asyncio.Future[Report]:
        self._check_running()
        waiter = self._waiting[msg_id] = asyncio.get_running_loop().create_future()
        return waiter

    async def send(self, nid: Nid, *, count: int, size: int) -> list[dict[str, Any]]:
        """Send `count` messages of `size` bytes one after the other; return the result of each.

        Raises:  CommandError: EINVAL: `count` out of range. EMSGSIZE: `size` out of range.
        """
        self._check_running()
        self._check_size(size)
        if not 1 <= count <= 1000:
            raise CommandError(errno.EINVAL, f"count {count}, expected 1 to 1000")
        sent: list[dict[str, Any]] = []
        for number in range(1, count + 1):
            report = await self._report_of(self.node.put(nid, bytes(size), match_bits=MATCH_BITS))
            entry: dict[str, Any] = {"message": number, "nid": str(nid)}
            if isinstance(report, SendDone):
                route = report.route
                entry |= {
                    "status": "delivered",
                    "dev": route.rt_dev.name,
                    "local ip": str(route.rt_dev.addr),
                    "remote ip": str(route.rt_addr),
                    "attempts": report.attempts,
                }
            elif isinstance(report, SendFailed):
                entry |= {"status": "failed", "errno": report.errno, "descr": report.reason}
            sent.append(entry)
        return sent

    def _check_size(self, size: int) -> None:
        limit = self.node.lnd.config.max_message
        if not 0 <= size <= limit:
            raise CommandError(errno.EMSGSIZE, f"size {size}, expected 0 to {limit} bytes")

    async def selftest(
        self, nid: Nid, *, size: int, concurrency: int, seconds: float, kind: TxKind = TxKind.PUT
    ) -> SelftestResult:
        """Load the routes to `nid` for `seconds`; return the traffic of each.

        Raises:  CommandError: EINVAL, EMSGSIZE: a number out of range.
        """
        self._check_size(size)
        if not 1 <= concurrency <= 1024:
            raise CommandError(errno.EINVAL, f"concurrency {concurrency}, expected 1 to 1024")
        if not 0 < seconds <= MAX_SELFTEST_S:
            raise CommandError(
                errno.EINVAL, f"time {seconds:g} s, expected more than 0 and at most {MAX_SELFTEST_S:g} s"
            )
        self._check_running()
        end: asyncio.Future[SelftestResult] = asyncio.get_running_loop().create_future()
        payload = bytes(size)

        def start(kind: TxKind, target: Nid, length: int) -> int:
            if kind is TxKind.PUT:
                return self.node.put(target, payload, match_bits=MATCH_BITS)
            return self.node.get(target, length, match_bits=MATCH_BITS)

        def ended(result: SelftestResult) -> None:
            if not end.done():
                end.set_result(result)

        selftest = Selftest(
            self.node.clock,
            start,
            nid,
            kind=kind,
            size=size,
            concurrency=concurrency,
            seconds=seconds,
            on_end=ended,
        )
        self._selftests[selftest] = end
        try:
            selftest.begin()
            return await end
        finally:
            del self._selftests[selftest]
            selftest.give_up()

    def first_nid(self) -> Nid:
        """Return the NID of the first network. Raises: CommandError: ENOENT: there is no network."""
        for ni in self.node.lnd.nis.values():
            return ni.nid
        raise CommandError(errno.ENOENT, f"host {self.node.name} has no network")

    async def execute(self, command: str, args: dict[str, Any]) -> Answer:
        """Run a command by its name in the control API. Raises: CommandError: refused, or unknown command."""
        self._check_running()
        question = self.questions.COMMANDS.get(command)
        if question is not None:
            return await question(self.questions, args)
        method = getattr(self.ctl, command, None) if command in COMMANDS else None
        if method is None:
            raise CommandError(errno.EOPNOTSUPP, f"unknown command {command!r}")
        for name, value in args.items():
            values = value if isinstance(value, list) else [value]
            if not all(isinstance(item, str) for item in values):
                raise CommandError(
                    errno.EINVAL, f"{command}: {name} is neither a string nor a list of strings"
                )
        try:
            bound = inspect.signature(method).bind(**args)
        except TypeError as error:
            raise CommandError(errno.EINVAL, f"{command}: {error}") from None
        document = method(*bound.args, **bound.kwargs)
        failed = any(check.get("status") == "failed" for check in document.get("check", ()))
        return Answer(format_yaml(document), exit=int(failed))
