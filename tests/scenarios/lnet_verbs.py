"""Seeded schedules of faults, lnetctl verbs and restarts, and the law of delivery, checked without the help of LNet.

The oracle has two records of its own: what was sent, and what each receiver handed on to its user. Each message has
bytes that no other one has, so neither numbers nor NIDs are needed to compare them:

    done = handed on exactly once; failed = at most once; failed without doubt = never; one report for each message;
    no node ends, and no verb raises anything but a refusal
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import yaml

from hfi_sim.base.clock import ManualClock
from lnet.base.errors import CommandError
from lnet.base.nid import Net, Nid
from lnet.host.rig import LnetRig, RigHost
from lnet.lnetctl import Lnetctl
from lnet.objects.stats import Received, Report, SendDone, SendFailed
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding
from scenarios.lnet_faults import get_handler, payload

ADDRESSES = {
    "a": ["10.1.1.2", "10.1.1.3"],
    "b": ["10.1.1.5", "10.1.1.6"],
    "c": ["10.1.1.8", "10.1.1.9"],
}
NETS = ["o2ib0", "o2ib1"]
BUSY_S = 8.0
"""How long messages are sent, and verbs, faults and restarts happen."""
SETTLED_S = 700.0
"""Longer than any message can take: six timeouts beyond the longest timeout, and the longest transaction."""
SIZES = [0, 100, 3976, 5000, 40_000]


@dataclass(slots=True)
class Life:
    """One incarnation of a host: what it sent, and what it was told of that."""

    host: RigHost
    ctl: Lnetctl
    sent: dict[int, bytes] = field(default_factory=dict)
    """By message number; of a GET, what is to be fetched."""
    gets: set[int] = field(default_factory=set)
    ends: dict[int, list[SendDone | SendFailed]] = field(default_factory=dict)


class VerbSchedule:
    """One seed: three hosts, each with either bonding, that send to each other while everything changes."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"verbs {seed}")
        self.clock = ManualClock()
        config = LndConfig(
            timeout_s=rng.choice([0.5, 2.0, 30.0]),
            transaction_timeout_s=rng.choice([4.0, 20.0, 150.0]),
            reconnect_max_s=1.0,
            keepalive_s=20.0,
            discovery=rng.random() < 0.8,
        )
        self.rig = LnetRig(self.clock, seed=seed, rate_bps=10e9, config=config)
        self.lives: list[Life] = []
        self.now: dict[str, Life] = {}
        self.handed_on: Counter[bytes] = Counter()
        self.stamp = 1
        self.messages = 0
        self.exports: list[str] = []
        for name, addresses in ADDRESSES.items():
            self.rig._bonding = rng.choice(list(Bonding))
            both = rng.choice(["o2ib0(ib0,ib1)"] * 3 + ["o2ib0(ib0),o2ib1(ib1)"])
            self.rig.add_host(name, addresses, networks=both, get_handler=get_handler)
            self._live(name)
        for _ in range(rng.choice([30, 60, 120])):
            self.clock.call_at(rng.uniform(0, BUSY_S), self._send)
        for _ in range(rng.choice([0, 2, 6, 20])):
            self.clock.call_at(rng.uniform(0, BUSY_S), self._verb)
        for _ in range(rng.choice([0, 0, 1, 3])):
            self.clock.call_at(rng.uniform(0, BUSY_S), self._restart)
        for _ in range(rng.choice([0, 1, 4, 10])):
            self._fault()

    # --- what happens --------------------------------------------------------------------------------------

    def _live(self, name: str) -> None:
        host = self.rig.hosts[name]
        life = Life(host, Lnetctl(host.node, bonding_of=lambda net: self.rng.choice(list(Bonding))))

        def on_report(report: Report) -> None:
            if isinstance(report, Received):
                self.handed_on[report.data] += 1
            elif isinstance(report, SendDone | SendFailed):
                life.ends.setdefault(report.msg_id, []).append(report)

        host.node.on_report = on_report
        self.now[name] = life
        self.lives.append(life)

    def _nids(self, name: str) -> list[Nid]:
        """The NIDs of a host as it is now, or one that it might have."""
        known = [nid for ni in self.now[name].host.node.lnd.nis.values() for nid in ni.nids]
        return known or [Nid.parse(f"{ADDRESSES[name][0]}@{self.rng.choice(NETS)}")]

    def _send(self) -> None:
        source, target = self.rng.sample(sorted(self.now), 2)
        self._burst(source, target, self.rng.choice([1, 1, 4]))

    def _burst(self, source: str, target: str, count: int) -> None:
        """Send messages from one host to the NIDs of another."""
        rng, life = self.rng, self.now[source]
        for _ in range(count):
            nid = rng.choice(self._nids(target))
            self.messages += 1
            data = payload(self.messages, rng.choice(SIZES) + 4)
            if rng.random() < 0.15:
                msg_id = life.host.node.get(nid, len(data), match_bits=self.messages)
                life.gets.add(msg_id)
            else:
                msg_id = life.host.node.put(nid, data)
            assert msg_id not in life.sent, "a number is used once"
            life.sent[msg_id] = data

    def _amid_messages(self, name: str, what: Callable[[str, str], None]) -> None:
        """Let something happen to a host amid messages from it and to it, whose acknowledgements may be lost."""
        rng = self.rng
        other = rng.choice([other for other in sorted(self.now) if other != name])
        for source, target in rng.choice(
            [[], [(name, other)], [(other, name)], [(name, other), (other, name)]]
        ):
            if rng.random() < 0.4:
                for index in range(2):
                    self.rig.world.faults.add(
                        f"loss on {source}-ib{index} direction=rx for={rng.expovariate(1)}s"
                    )
            self._burst(source, target, rng.choice([1, 8, 40]))
        delay_s = rng.choice([0.0, rng.uniform(0, 20e-6), rng.uniform(0, 1e-3), rng.uniform(0, 0.5)])
        self.clock.call_later(delay_s, what, name, other)

    def _restart(self) -> None:
        self._amid_messages(self.rng.choice(sorted(self.now)), self._start_again)

    def _start_again(self, name: str, other: str) -> None:
        self.stamp += 1
        self.rig._bonding = self.rng.choice(list(Bonding))
        self.rig.restart(name, stamp=self.stamp)
        self._live(name)

    def _fault(self) -> None:
        rng = self.rng
        port = f"{rng.choice(sorted(ADDRESSES))}-ib{rng.randrange(2)}"
        kinds = [f"link-down on {port}", f"hfi-removal on {port}", f"loss on {port} direction=rx"]
        kinds += [f"loss on {port} 20%", "loss on * 5%", "switch-reboot on sw0"]
        length = min(rng.expovariate(1), BUSY_S)
        self.rig.world.faults.add(f"{rng.choice(kinds)} after={rng.uniform(0, BUSY_S)}s for={length}s")

    # --- verbs ---------------------------------------------------------------------------------------------

    def _verb(self) -> None:
        self._amid_messages(self.rng.choice(sorted(self.now)), self._run_verb)

    def _run_verb(self, name: str, other: str) -> None:
        """Run a verb on a host; it does what it says or is refused."""
        verbs = [
            self._net_add, self._net_add, self._net_del, self._net_del, self._net_swap, self._peer_add,
            self._peer_del, self._peer_del, self._import, self._remove, self._set, self._set, self._health,
            self._target, self._discover, self._unconfigure,
        ]  # fmt: skip
        with contextlib.suppress(CommandError):
            self.rng.choice(verbs)(self.now[name], other)

    def _net_add(self, life: Life, other: str) -> None:
        names = self.rng.choice([["ib0"], ["ib1"], ["ib0", "ib1"], ["ib1", "ib0"]])
        life.ctl.net_add(self.rng.choice(NETS), names)

    def _net_del(self, life: Life, other: str) -> None:
        self.exports.append(yaml.safe_dump(life.ctl.export_yaml()))
        life.ctl.net_del(self.rng.choice(NETS), self.rng.choice([None, "ib0", "ib1"]))

    def _net_swap(self, life: Life, other: str) -> None:
        """Remove a network and add it again, at once or later, with either bonding."""
        net = self.rng.choice(NETS)
        life.ctl.net_del(net)
        self.clock.call_later(self.rng.choice([0.0, 0.001, 0.1, 1.0]), self._again, life, net)

    def _again(self, life: Life, net: str) -> None:
        if life in self.now.values():
            with contextlib.suppress(CommandError):
                life.ctl.net_add(net, ["ib0", "ib1"])

    def _unconfigure(self, life: Life, other: str) -> None:
        """Stop LNet, and start it later with the networks that it had."""
        nets = list(map(str, life.host.node.lnd.nis))
        life.ctl.lnet_unconfigure()
        self.clock.call_later(self.rng.choice([0.0, 0.001, 0.1, 1.0]), self._configure, life, nets)

    def _configure(self, life: Life, nets: list[str]) -> None:
        life.ctl.lnet_configure()
        for net in nets:
            self._again(life, net)

    def _peer_add(self, life: Life, other: str) -> None:
        net = self.rng.choice(NETS)
        first, *more = [f"{address}@{net}" for address in self.rng.sample(ADDRESSES[other], 2)]
        life.ctl.peer_add(first, more if self.rng.random() < 0.7 else [])

    def _peer_del(self, life: Life, other: str) -> None:
        known = [peer["nid"] for peer in life.ctl.peer_list()["peer list"]]
        life.ctl.peer_del(self.rng.choice(known) if known else None)

    def _import(self, life: Life, other: str) -> None:
        own = [text for text in self.exports if f"{life.host.node.interfaces['ib0'].addr}@" in text]
        life.ctl.import_yaml(self.rng.choice(own) if own else yaml.safe_dump(life.ctl.export_yaml()))

    def _remove(self, life: Life, other: str) -> None:
        text = yaml.safe_dump(life.ctl.export_yaml())
        self.exports.append(text)
        life.ctl.remove_yaml(text)

    def _set(self, life: Life, other: str) -> None:
        names = ["discovery", "discovery", "retry_count", "transaction_timeout", "health_sensitivity"]
        name = self.rng.choice(names)
        most = {"discovery": 1, "retry_count": 5, "transaction_timeout": 50, "health_sensitivity": 1000}
        life.ctl.set_value(name, str(self.rng.randint(0, most[name])))

    def _health(self, life: Life, other: str) -> None:
        verb = self.rng.choice([life.ctl.net_set, life.ctl.peer_set])
        verb(str(self.rng.choice([0, 500, 1000])), all_nis="1")

    def _target(self, life: Life, other: str) -> None:
        nid = self._nids(other)[0]
        if self.rng.random() < 0.5:
            life.ctl.o2ibs_add(str(nid), ADDRESSES[other])
        else:
            life.ctl.o2ibs_del(str(nid))

    def _discover(self, life: Life, other: str) -> None:
        lnd, nid = life.host.node.lnd, self._nids(other)[0]
        ni = lnd.nis.get(nid.net)
        if ni is not None and ni.bonding is Bonding.MULTI_RAIL:
            lnd.at(life.host.node.time())
            lnd.rails.ask(nid, lambda failed: None, force=self.rng.random() < 0.5)
            life.host.node.poll()

    # --- the law -------------------------------------------------------------------------------------------

    def run(self) -> Counter[str]:
        """Run to the end, hold the law, and return how the messages ended."""
        self.clock.advance(BUSY_S + SETTLED_S)
        self._check_nodes_live()
        ends: Counter[str] = Counter()
        for life in self.lives:
            ends += self._check_messages(life)
        assert sum(self.handed_on.values()) <= self.messages
        assert self.rig.world.fabric.balance() == {}
        return ends

    def _check_nodes_live(self) -> None:
        """No node has ended: a message of each still ends."""
        for name, life in self.now.items():
            assert life.host.node.failure is None, name
            net = str(next(iter(life.host.node.lnd.nis), Net.parse("o2ib0")))
            msg_id = life.host.node.put(Nid.parse(f"10.9.9.9@{net}"), b"nowhere")
            life.sent[msg_id] = b"nowhere"
        self.clock.advance(SETTLED_S)

    def _check_messages(self, life: Life) -> Counter[str]:
        lives_on = life in self.now.values()
        ends: Counter[str] = Counter()
        for msg_id, data in life.sent.items():
            reports = life.ends.get(msg_id, [])
            assert len(reports) == 1 or (not lives_on and not reports), f"reports of {msg_id}: {reports}"
            arrived = self.handed_on[data]
            report = reports[0] if reports else None
            if msg_id in life.gets:
                assert not isinstance(report, SendDone) or report.data == data
                continue
            if isinstance(report, SendDone):
                assert arrived == 1, f"done, and handed on {arrived} times: {report}"
                ends["done"] += 1
            elif report is None or report.in_doubt:
                assert arrived <= 1, f"in doubt, and handed on {arrived} times: {report}"
                ends["in doubt" if report is not None else "sender restarted"] += 1
            else:
                assert arrived == 0, f"failed without doubt, and handed on {arrived} times: {report}"
                ends["failed"] += 1
        return ends
