"""The control plane: reserves and frees up to eight instances, and keeps the tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

from ejfat.base.addresses import IpAddress
from ejfat.base.drops import PipelineCounters
from ejfat.base.errors import BadRequestError, ControlError, ExhaustedError, ForbiddenError, UnknownError
from ejfat.control.assignment import Strategy
from ejfat.control.balancer import Policy, ReservedInstance
from ejfat.control.epochs import programming
from ejfat.control.epochs.programming import TableTarget
from ejfat.control.health import Conflict
from ejfat.control.history import History
from ejfat.control.members import Session, Worker, check_name
from ejfat.control.stored import Parts, Written, parts_of, restore
from ejfat.control.tokens import Action, Permission, Resource, TokenBook
from ejfat.tables.schema import Update

INSTANCES = 8
_BROADCAST = IPv4Address("255.255.255.255")
_STATE_FORMAT = 2


def check_host(address: IpAddress) -> None:
    """Refuse an address that no single host on the network can have.

    Raises:  BadRequestError: multicast, unspecified, loopback or broadcast.
    """
    kinds = {
        "a multicast": address.is_multicast,
        "the unspecified": address.is_unspecified,
        "a loopback": address.is_loopback,
        "the broadcast": address == _BROADCAST,
    }
    for kind in (kind for kind, fits in kinds.items() if fits):
        raise BadRequestError(f"{address} is {kind} address, expected the address of a single host")


@dataclass(frozen=True, slots=True)
class InstanceAddresses:
    """The addresses of one instance."""

    ipv4: IpAddress | None = None
    ipv6: IpAddress | None = None

    @property
    def all(self) -> list[IpAddress]:
        """The configured addresses."""
        return [address for address in (self.ipv4, self.ipv6) if address is not None]


@dataclass(frozen=True, slots=True)
class PlaneConfig:
    """The configuration of the control plane."""

    mac: int
    """MAC address of the load balancer."""
    instances: tuple[InstanceAddresses, ...]
    sync_port: int = 19531
    """UDP port for sync messages to instance 0; the ports of the other instances follow."""
    policy: Policy = field(default_factory=Policy)
    with_v1: bool = True
    """Whether instance 0 also serves senders of header version 1."""

    def check(self) -> None:
        """Refuse addresses that a single load balancer cannot have.

        Raises:  BadRequestError: with the address and what is expected.
        """
        if not 1 <= len(self.instances) <= INSTANCES:
            raise BadRequestError(f"{len(self.instances)} instances, expected 1 to {INSTANCES}")
        if self.mac >> 40 & 1 or not self.mac:
            mac = self.mac.to_bytes(6, "big").hex(":")
            raise BadRequestError(f"MAC address {mac}: expected a unicast address such as 02:4c:42:00:00:01")
        seen: set[IpAddress] = set()
        for address in (address for instance in self.instances for address in instance.all):
            check_host(address)
            if "%" in str(address):
                raise BadRequestError(
                    f"{address} has a scope, which is not part of a frame: remove the % and what follows"
                )
            if address in seen:
                raise BadRequestError(f"{address} appears twice: each instance needs its own address")
            seen.add(address)

    def target(self, lb_id: int) -> TableTarget:
        """Return the tables that an instance uses."""
        return TableTarget(lb_id, self.with_v1 and lb_id == 0)


@dataclass(slots=True)
class Reservation:
    """A reserved instance, with the number that identifies it to clients."""

    reservation_id: int
    balancer: ReservedInstance

    @property
    def instance(self) -> int:
        """Number of the instance in the data plane; not the id that clients use."""
        return self.balancer.target.lb_id

    @property
    def path(self) -> dict[Resource, str]:
        """The path of this reservation in permissions."""
        return instance_path(self.instance) | {Resource.RESERVATION: str(self.reservation_id)}

    def session_path(self, session_id: int) -> dict[Resource, str]:
        """Return the path of one of its sessions in permissions."""
        return self.path | {Resource.SESSION: f"{self.reservation_id}/{session_id}"}


def instance_path(instance: int) -> dict[Resource, str]:
    """Return the path of an instance in permissions, which count from 1 as the public control plane does."""
    return {Resource.LOAD_BALANCER: str(instance + 1)}


class ControlPlane:
    """Sans-IO: requests in, table updates to `program`, state to `snapshot`.

    Args:    program: called with the updates of each decision, to apply in order; its exceptions reach the caller.
        counters: returns those of the data plane.
    """

    def __init__(
        self,
        config: PlaneConfig,
        program: Callable[[list[Update]], None],
        counters: Callable[[], PipelineCounters] = PipelineCounters,
    ) -> None:
        config.check()
        self._counters = counters
        self.config = config
        self.tokens = TokenBook()
        self.reservations: dict[int, Reservation] = {}
        self.history = History()
        self.conflicts: Mapping[IpAddress, Conflict] = {}
        """Addresses that another host has too; set by the pipeline, which sees frames."""
        self.ahead_s = 0
        """Seconds by which the machine's clock is ahead of the one that is passed as `now`; set by the program."""
        self.is_lent = False
        """Whether a foreign control plane owns the tables."""
        self._program = program
        self._next_reservation = 1
        self._written: dict[int, Written] = {}
        self._head: dict[str, Any] | None = None
        """What was stored last of the plane itself."""
        self._gone: Parts = {}

    def start(self) -> None:
        """Program the addresses of all instances and, after `restore`, the reservations."""
        updates: list[Update] = []
        for lb_id, addresses in enumerate(self.config.instances):
            updates += programming.own_addresses(self.config.target(lb_id), self.config.mac, addresses.all)
        for reservation in self.reservations.values():
            updates += reservation.balancer.program()
        self._program(updates)

    def program(self, updates: list[Update]) -> None:
        """Pass updates to the data plane."""
        if updates:
            self._program(updates)

    def lend_tables(self) -> None:
        """Leave the tables to a foreign control plane until the restart: two would overwrite each other's rules.

        Raises:  ControlError: an instance is reserved here, so this control plane owns the tables.
        """
        for reservation in self.reservations.values():
            raise ControlError(
                f"{reservation.balancer.name} is reserved here: free it before another control plane uses the tables"
            )
        self.is_lent = True

    def reserve(
        self,
        name: str,
        *,
        senders: Sequence[IpAddress] = (),
        until: float | None = None,
        strategy: Strategy = Strategy.DYNAMIC,
        family: int = 0,
        among: Collection[int] | None = None,
        now: float,
    ) -> Reservation:
        """Reserve the first free instance.

        Args:    until: when the reservation expires, by the clock of `now`; None: never. family: required IP
            version, 4 or 6; 0: either. among: the instances to choose from; None: all.
        Raises:  ExhaustedError: all instances are reserved. BadRequestError: an invalid name, an end in the past, or an
            IP version that no instance has. ControlError: a foreign control plane owns the tables.
        """
        check_name("reservation", name)
        if self.is_lent:
            raise ControlError(
                "a foreign control plane programs the tables: reserve there, or restart this one without it"
            )
        if until is not None and until <= now:
            raise BadRequestError(f"the end of the reservation is {now - until:.0f} s in the past")
        taken = {reservation.instance for reservation in self.reservations.values()}
        fitting = [
            lb_id
            for lb_id, addresses in enumerate(self.config.instances)
            if (among is None or lb_id in among)
            and (not family or any(address.version == family for address in addresses.all))
        ]
        if not fitting:
            raise BadRequestError(f"no load balancer here has an IPv{family} address")
        free = [lb_id for lb_id in fitting if lb_id not in taken]
        if not free:
            raise ExhaustedError(f"all {len(fitting)} load balancers are reserved")
        balancer = ReservedInstance(
            self.config.target(free[0]), name, self.config.policy, strategy, until, family
        )
        updates = balancer.add_senders(senders)
        reservation = Reservation(self._next_reservation, balancer)
        self._next_reservation += 1
        self.reservations[reservation.reservation_id] = reservation
        before = self._counters().lbs[reservation.instance]
        balancer.watch.count_from(before.with_tick, before.ahead)
        self.history.begin(reservation.reservation_id, before)
        self.program(updates)
        return reservation

    def register(self, reservation: Reservation, worker: Worker, now: float) -> Session:
        """Open a session of a worker, and program its rewrite.

        Raises:  BadRequestError: the worker's values are invalid. ExhaustedError: the member table is full.
        """
        session, updates = reservation.balancer.register(worker, now)
        number, member = reservation.reservation_id, self._counters().members[session.member_id]
        self.history.begin_session(number, session.session_id, member)
        self.program(updates)
        return session

    def mac_of_own(self, reservation: Reservation, worker: Worker) -> int | None:
        """Return the MAC of a worker that is another instance here, of a chain; None if it is another host.

        Raises:  ControlError: packets would come back to the same instance, or without a header.
        """
        numbers = [n for n, instance in enumerate(self.config.instances) if worker.ip in instance.all]
        if not numbers:
            return None
        if reservation.instance in numbers or not worker.keep_lb_header:
            raise ControlError(
                f"{worker.ip} is an address of this load balancer: expected that of a worker, or of another instance "
                "that gets packets with their header"
            )
        return self.config.mac

    def get(self, reservation_id: str) -> Reservation:
        """Return a reservation by the id that clients use.

        Raises:  UnknownError: no such reservation.
        """
        found = self.find(reservation_id)
        if found is None:
            raise UnknownError(f"no load balancer {reservation_id!r}")
        return found

    def find(self, reservation_id: str) -> Reservation | None:
        """Return a reservation by the id that clients use; None if there is none."""
        return next((r for number, r in self.reservations.items() if str(number) == reservation_id), None)

    def by_instance(self, instance: int) -> Reservation | None:
        """Return the reservation of an instance, or None."""
        return next((r for r in self.reservations.values() if r.instance == instance), None)

    def free(self, reservation: Reservation) -> None:
        """End a reservation: remove its table entries and revoke its tokens."""
        number = reservation.reservation_id
        del self.reservations[number]
        self._written.pop(number, None)
        reservation.balancer.take_touched()
        self._gone |= {_key(number, name): None for name in parts_of(reservation.balancer)}
        self.tokens.revoke_for(Resource.RESERVATION, str(number))
        self._revoke_sessions(reservation, list(reservation.balancer.sessions))
        self.program(reservation.balancer.clear())

    def _revoke_sessions(self, reservation: Reservation, numbers: Iterable[int]) -> None:
        for number in numbers:
            path = reservation.session_path(number)
            self.tokens.revoke_for(Resource.SESSION, path[Resource.SESSION])

    def is_waiting(self, now: float) -> bool:
        """Return whether an instance waits for `connect`."""
        return any(reservation.balancer.is_waiting(now) for reservation in self.reservations.values())

    def connect(self, now: float) -> None:
        """Switch to the prepared epochs. No frame may pass between the last `observe` and the end of this call."""
        for reservation in self.reservations.values():
            self.program(reservation.balancer.connect(now))

    def prepare(self, now: float) -> None:
        """Do the work that can be done while frames pass, and end expired reservations."""
        for reservation in list(self.reservations.values()):
            expires_at = reservation.balancer.expires_at
            if expires_at is not None and now >= expires_at:
                self.free(reservation)
                continue
            before = list(reservation.balancer.sessions)
            self.program(reservation.balancer.prepare(now))
            gone = [number for number in before if number not in reservation.balancer.sessions]
            self._revoke_sessions(reservation, gone)

    def sample(self, now: float) -> None:
        """Add the current values to the history."""
        self.history.sample({n: r.balancer for n, r in self.reservations.items()}, self._counters(), now)

    def admit_operator(self, secret: str, now: float) -> None:
        """Make `secret` the operator's: a new one replaces the old one, which is no longer valid."""
        operator = self.tokens.operator()
        if operator is None:
            permission = Permission(Resource.ALL, "", Action.UPDATE)
            self.tokens.add(secret, "operator", [permission], parent=None, now=now)
            return
        try:
            self.tokens.find(secret)
        except ForbiddenError:
            self.tokens.replace_secret(operator.token_id, secret)

    def take_changes(self) -> Parts:
        """Return what has changed since the last call, as plain data by key; None: it is gone."""
        changes, self._gone = self._gone, {}
        head: dict[str, Any] = {"format": _STATE_FORMAT, "next_reservation": self._next_reservation}
        head |= {"salt": self.tokens.salt, "next_token": self.tokens.next_id, "ahead_s": self.ahead_s}
        if head != self._head:
            changes["plane"] = self._head = head
        for number, reservation in self.reservations.items():
            written = self._written.setdefault(number, Written())
            parts = written.changes(reservation.balancer)
            changes |= {_key(number, name): part for name, part in parts.items()}
        for token_id in self.tokens.take_touched():
            changes[f"token/{token_id}"] = self.tokens.part(token_id)
        return changes

    def restore(self, stored: Mapping[str, Any], now: float) -> None:
        """Restore the state from what `take_changes` returned in all; `start` programs it.

        Raises:  BadRequestError: not valid, or with an instance that is not configured.
        """
        head = stored.get("plane")
        if not isinstance(head, dict) or head.get("format") != _STATE_FORMAT:
            found = head.get("format") if isinstance(head, dict) else head
            raise BadRequestError(f"stored state of format {found!r}, expected {_STATE_FORMAT}")
        reservations: dict[int, Reservation] = {}
        parts: dict[int, Parts] = {}
        try:
            tokens = TokenBook(head["salt"], head["next_token"])
            for key, data in stored.items():
                kind, _, rest = key.partition("/")
                if kind == "token":
                    tokens.restore_part(int(rest), data)
                elif kind == "reservation":
                    owner, _, name = rest.partition("/")
                    parts.setdefault(int(owner), {})[name] = data
            for number in sorted(parts):
                balancer = restore(parts[number], self.config.target, self.config.policy, now)
                if balancer.target.lb_id >= len(self.config.instances):
                    raise BadRequestError(
                        f"stored state of instance {balancer.target.lb_id}, which is not configured"
                    )
                if balancer.expires_at is not None:  # both clocks agree when a program starts
                    balancer.expires_at += head.get("ahead_s", 0)
                reservations[number] = Reservation(number, balancer)
            self._next_reservation = head["next_reservation"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadRequestError(f"stored state of the control plane: {error!r}") from None
        self.reservations, self.tokens = reservations, tokens


def _key(reservation: int, name: str) -> str:
    return f"reservation/{reservation}/{name}"
