"""The machines of a cluster: the coordinator, which has the lab file, and the others, which it gives their share.

coordinator: start -> gather machines -> place -> build its share -> "start" to each -> all are ready -> it runs
machine:     join -> "start" -> build its share -> "report", whenever something changes -> "ready" -> it runs
             <- "program", what the subnet manager has made of its nodes
             <- "down", and it ends
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from hfi_sim.did_you_mean import unknown_name
from opavnic.cluster.boundary import Boundary
from opavnic.cluster.errors import AskError, ClusterError, ClusterInputError
from opavnic.cluster.part import Follower, Programs, make_boundary
from opavnic.cluster.placement import Placement, place
from opavnic.cluster.status import fold
from opavnic.cluster.transport import NodeName, NodeState, Presence, Transport
from opavnic.lab.errors import LabError
from opavnic.lab.lab import Lab
from opavnic.lab.loader import parse_lab
from opavnic.lab.machine import NetdevKind
from opavnic.lab.model import LabModel
from opavnic.lab.share import Share
from opavnic.lab.status import vnic_state
from opavnic.lab.topology import lab_topology
from opavnic.lab.vnics import HostVnic
from opavnic.world.em_node import EM_NODE
from opavnic.world.steps import in_turns
from opavnic.world.world import World

log = logging.getLogger("opavnic.cluster")

READY_S: Final = 60.0
"""Time limit for the VNICs of all machines to become operational."""
_LOOK_AGAIN_S: Final = 0.02
_PINGS: Final = 5
"""Questions by which the way to another machine is measured."""

MAX_RUN_S: Final = 600.0
"""How long a program may take that another machine asks for."""
MAX_OUTPUT: Final = 200_000
"""Characters of its output that are sent back: the last ones."""

Verb = Callable[[NodeName, dict[str, Any]], Awaitable[dict[str, Any]]]


def digest_of(text: str) -> str:
    """Return what tells one lab file from another."""
    return hashlib.sha256(text.encode()).hexdigest()


def place_lab(model: LabModel, machines: list[str]) -> Placement:
    """Place a lab on machines, the coordinator first.

    Raises:  ClusterInputError: the lab file places something on a machine that is not there.
    """
    topology = lab_topology(
        model.fabric.topology,
        {name: (host.hfis, host.ports) for name, host in model.hosts.items()},
        [EM_NODE],
        link=model.fabric.link,
    )
    section = model.cluster
    return place(topology, machines, wanted=section.place, labels=section.labels, managers=EM_NODE)


class Machine:
    """What coordinator and machines have in common: a transport, a share of the lab, its boundary."""

    def __init__(self, transport: Transport, progress: Callable[[str], None]) -> None:
        """Answer questions; nobody is asked yet."""
        self.transport = transport
        self.progress = progress
        self._trouble: dict[NodeName, str] = {}
        """Why machines do not start their shares, while the lab is starting."""
        self._measuring: set[asyncio.Task[None]] = set()
        self.nodes: dict[NodeName, NodeState] = {}
        """The machines that are there."""
        self.lab: Lab | None = None
        self.boundary: Boundary | None = None
        self.placement: Placement | None = None
        self.verbs: dict[str, Verb] = {
            "ping": _pong,
            "status": self._say_status,
            "fault": self._take_fault,
            "run": self._run_program,
        }
        transport.on_node = self._node
        transport.serve = self._serve

    async def _serve(self, asker: NodeName, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.verbs.get(verb)
        if answer is None:
            raise ClusterError(f'"{verb}" is no question that {self.transport.name} answers')
        return await answer(asker, body)

    def _node(self, name: NodeName, state: NodeState) -> None:
        if state.presence is Presence.JOINED:
            before = self.nodes.get(name)
            if before is not None and before.life != state.life:
                self._lost(name)
            self.nodes[name] = state
            self._came(name, state)
        elif state.presence is Presence.GONE:
            if self.nodes.pop(name, None) is not None:
                self._lost(name)
        else:
            self.progress(f"{name} was refused: {state.reason}")

    def _came(self, name: NodeName, state: NodeState) -> None:
        log.info("machine %s is there (life %#x)", name, state.life)
        if self.boundary is not None:
            self.boundary.set_peer(name, True, state.life)
            self._measure_soon(name)

    def _measure_soon(self, name: NodeName) -> None:
        task = asyncio.get_running_loop().create_task(self._measure(name))
        self._measuring.add(task)
        task.add_done_callback(self._measuring.discard)

    async def _measure(self, name: NodeName) -> None:
        """Take half of the shortest of a few round trips for what the network to a machine adds."""
        loop = asyncio.get_running_loop()
        trips = []
        try:
            for _ in range(_PINGS):
                start = loop.time()
                await self.transport.ask(name, "ping", {}, timeout_s=5.0)
                trips.append(loop.time() - start)
        except AskError as error:
            log.info("the way to %s is not measured: %s", name, error)
        if trips and self.boundary is not None and name in self.nodes:
            self.boundary.set_network(name, min(trips) / 2)

    def _lost(self, name: NodeName) -> None:
        log.warning("machine %s is gone", name)
        if self.boundary is not None:
            self.boundary.set_peer(name, False)

    def _make_lab(
        self, model: LabModel, placement: Placement, *, manages: bool, file: str, netdev: NetdevKind
    ) -> Lab:
        machine = str(self.transport.name)
        self.placement = placement
        share = Share(
            machine=machine,
            hosts=frozenset(placement.hosts[machine]),
            elsewhere=placement.elsewhere(machine),
            manages=manages,
            attach=self._attach,
            await_others=self._await_others,
            trouble=lambda: list(self._trouble.values()),
            status=self._status,
            fold=self._fold,
            spread=self.spread,
            run=self.run_elsewhere,
        )
        timer_resolution_s = 0.0 if netdev == "memory" else None
        self.lab = Lab(model, file=file, netdev=netdev, share=share, timer_resolution_s=timer_resolution_s)
        self.lab.progress = self.progress
        return self.lab

    def _attach(self, world: World) -> None:
        assert self.placement is not None  # noqa: S101 - a lab has been made
        loop = asyncio.get_running_loop()
        self.boundary = make_boundary(world, self.transport, self.placement, str(self.transport.name), loop)
        world.ends.add("links to other machines", self.boundary.close)
        world.ends.add("measures of the network", self._end_measures)

    async def _end_measures(self) -> None:
        for task in tuple(self._measuring):
            task.cancel()
        await asyncio.gather(*self._measuring, return_exceptions=True)

    async def _await_others(self) -> None:
        raise NotImplementedError

    # --- faults and programs -------------------------------------------------------------------------------

    async def spread(self, change: dict[str, Any]) -> None:
        """Have the other machines make a change of faults that was made here: each acts where it carries the place.

        Raises:  ClusterError: one that is there does not.
        """
        asked = (self.transport.ask(name, "fault", change) for name in sorted(self.nodes))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        if failed := [str(answer) for answer in answers if isinstance(answer, AskError)]:
            raise ClusterError("; ".join(failed))

    def _trust(self, asker: NodeName) -> Lab:
        """Return the lab if `asker` may act on what is here.

        Raises:  ClusterError: it may not, or nothing is here yet.
        """
        if self.lab is None:
            raise ClusterError(f"{self.transport.name} has no share of the lab yet")
        state = self.nodes.get(asker)
        if not self.lab.model.cluster.trust_members and (state is None or not state.is_coordinator):
            raise ClusterError(
                f"{self.transport.name} obeys the coordinator alone, not {asker}: ask there, or write "
                "`cluster: {trust_members: true}` in the lab file"
            )
        return self.lab

    async def _take_fault(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        faults = self._trust(asker).world.faults
        if "add" in body:
            faults.add(str(body["add"]))
        elif body.get("remove") is None:
            faults.clear()
        else:
            faults.remove(int(body["remove"]))
        return {}

    async def run_elsewhere(self, host: str, command: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """Run a program to its end on the machine that has a host; return its exit code and what it has said.

        Raises:  ClusterError: no machine has it, or its machine is not there, or cannot run the program.
        """
        placed = {} if self.placement is None else self.placement.hosts
        machine = next((name for name, hosts in placed.items() if host in hosts), None)
        if machine is None:
            raise ClusterInputError(
                unknown_name("host", host, [h for hosts in placed.values() for h in hosts])
            )
        if machine == str(self.transport.name):
            return await self._run_here(host, command, timeout_s)
        body = {"host": host, "command": list(command), "timeout_s": timeout_s}
        return await self.transport.ask(NodeName(machine), "run", body, timeout_s=timeout_s + 5)

    async def _run_program(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self._trust(asker)
        command = [str(word) for word in body["command"]]
        return await self._run_here(str(body["host"]), command, min(float(body["timeout_s"]), MAX_RUN_S))

    async def _run_here(self, host: str, command: Sequence[str], timeout_s: float) -> dict[str, Any]:
        if self.lab is None:
            raise ClusterError(f"{self.transport.name} has no share of the lab yet")
        done = await self.lab.run(host, command, timeout_s=timeout_s)
        return {
            "exit_code": done.returncode,
            "stdout": done.stdout[-MAX_OUTPUT:],
            "stderr": done.stderr[-MAX_OUTPUT:],
        }

    # --- status --------------------------------------------------------------------------------------------

    def _status(self) -> dict[str, Any]:
        """Return what this machine says of the cluster."""
        own = str(self.transport.name)
        links = [] if self.boundary is None else self.boundary.status()
        placed = [] if self.placement is None else list(self.placement.hosts)
        return {
            "machine": own,
            "placed": placed,
            "there": sorted([own, *map(str, self.nodes)]),
            "links": links,
        }

    async def _say_status(self, _asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        if self.lab is None or self.boundary is None:
            raise ClusterError(f"{self.transport.name} has no share of the lab yet")
        return await in_turns(self.lab.status_steps(counters=bool(body.get("counters"))))

    async def _fold(self, status: dict[str, Any], counters: bool) -> dict[str, Any]:
        """Ask all machines at the same time; one that does not answer is left out."""
        others = [name for name in sorted(self.nodes) if name in status["cluster"]["placed"]]
        asked = (self.transport.ask(name, "status", {}, timeout_s=5.0) for name in others)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        shares = {str(self.transport.name): status}
        for name, answer in zip(others, answers, strict=True):
            if isinstance(answer, dict):
                shares[str(name)] = answer
            elif isinstance(answer, AskError):
                log.warning("%s gives no status: %s", name, answer)
            else:
                raise answer
        assert self.lab is not None  # noqa: S101 - it is asked
        return fold(shares, self.lab.model.hosts)

    def _not_up(self) -> list[str]:
        """Return the VNICs here that are not operational, each with what is missing."""
        vnics: list[HostVnic] = [] if self.lab is None else list(self.lab.vnics())
        return [
            f"{vnic} is {state}"
            for vnic in vnics
            if vnic.asked is not None and (state := vnic_state(vnic)) != "up"
        ]


class Coordinator(Machine):
    """The machine with the lab file, the subnet manager and the Ethernet Manager."""

    def __init__(
        self,
        model: LabModel,
        text: str,
        file: str,
        transport: Transport,
        *,
        progress: Callable[[str], None],
        wait: int | None = None,
        netdev: NetdevKind = "tap",
    ) -> None:
        """Prepare.

        Args:    text: of the lab file, for the other machines. wait: how many machines to gather, this one included;
                 None: as the lab file says.
        Raises:  ClusterInputError: nobody says how many.
        """
        super().__init__(transport, progress)
        self._model = model
        self._text = text
        self._file = file
        self._netdev: NetdevKind = netdev
        self._names = model.cluster.nodes if isinstance(model.cluster.nodes, list) else None
        if self._names is not None and str(transport.name) not in self._names:
            raise ClusterInputError(
                f"cluster.nodes: {', '.join(self._names)}; the coordinator is {transport.name}: "
                "list it, or name it with --name"
            )
        count = model.cluster.nodes if isinstance(model.cluster.nodes, int) else wait
        self._count = len(self._names) if self._names is not None else count
        if self._count is None:
            raise ClusterInputError(
                f"{model.name}: how many machines? Write `cluster: {{nodes: 3}}` in the lab file, or pass --wait 3"
            )
        self._gathered = asyncio.Event()
        self._is_running = False
        """All machines have been ready once: one that goes from now on may come back."""
        self._ready: set[NodeName] = set()
        self._changed = asyncio.Event()
        self._programs: Programs | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.verbs |= {"report": self._report, "ready": self._is_ready}

    async def gather(self) -> Lab:
        """Join the fabric, wait for the other machines, and return this machine's share of the lab, not started."""
        await self.transport.start()
        self._look()
        await self._gathered.wait()
        own = str(self.transport.name)
        machines = [own, *sorted(str(name) for name in self.nodes if self._is_wanted(name))]
        placement = place_lab(self._model, machines)
        for machine in machines:
            hosts = ", ".join(placement.hosts[machine]) or "no hosts"
            self.progress(f"{machine}: {hosts}")
        return self._make_lab(self._model, placement, manages=True, file=self._file, netdev=self._netdev)

    def _is_wanted(self, name: NodeName) -> bool:
        return self._names is None or str(name) in self._names

    def _look(self) -> None:
        there = 1 + sum(map(self._is_wanted, self.nodes))
        if self._gathered.is_set():
            return
        assert self._count is not None  # noqa: S101 - checked when this was made
        self.progress(f"{there} of {self._count} machines are there")
        if there >= self._count:
            self._gathered.set()

    def _came(self, name: NodeName, state: NodeState) -> None:
        super()._came(name, state)
        self._look()
        if self.boundary is not None:
            self._start_soon(name)

    def _lost(self, name: NodeName) -> None:
        super()._lost(name)
        self._ready.discard(name)
        if not self._is_running and self.placement is not None and str(name) in self.placement.hosts:
            self._trouble[name] = f"machine {name} has gone while the lab was starting"
            self._changed.set()
        if self._programs is not None:
            self._programs.gone(name)

    def _attach(self, world: World) -> None:
        super()._attach(world)
        assert self.placement is not None  # noqa: S101 - made just now
        assert self.boundary is not None  # noqa: S101 - made just now
        loop = asyncio.get_running_loop()
        self._programs = Programs(world, self.transport, self.placement, str(self.transport.name), loop)
        world.ends.add("programs of other machines", self._programs.close)
        for name, state in list(self.nodes.items()):
            self.boundary.set_peer(name, True, state.life)
            self._measure_soon(name)
            self._start_soon(name)

    def _start_soon(self, name: NodeName) -> None:
        task = asyncio.get_running_loop().create_task(self._start(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, name: NodeName) -> None:
        """Give a machine its share, or hear how it is if it has it already."""
        assert self.placement is not None  # noqa: S101 - called once placed
        if str(name) not in self.placement.hosts:
            self.progress(f"{name} has come too late: the lab is on {', '.join(self.placement.hosts)}")
            await self._say_down(name, f"lab {self._model.name} runs without {name}: it came too late")
            return
        body = {
            "lab": self._model.name,
            "text": self._text,
            "file": self._file,
            "digest": digest_of(self._text),
            "machines": list(self.placement.hosts),
            "netdev": self._netdev,
        }
        try:
            await self.transport.ask(name, "start", body)
        except AskError as error:
            log.warning("%s does not start: %s", name, error)
            self._trouble[name] = str(error)
            self._changed.set()

    async def _report(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        if self._programs is None or asker not in self._programs.carried:
            raise ClusterError(f"{asker} has no share of lab {self._model.name}")
        self._programs.reported(asker, body)
        return {}

    async def _is_ready(self, asker: NodeName, _body: dict[str, Any]) -> dict[str, Any]:
        self._ready.add(asker)
        self._changed.set()
        return {}

    async def _await_others(self) -> None:
        assert self.placement is not None  # noqa: S101 - the lab has started
        own = str(self.transport.name)
        wanted = {NodeName(name) for name in self.placement.hosts if name != own}
        try:
            async with asyncio.timeout(READY_S):
                while not wanted <= self._ready:
                    if self._trouble:
                        raise LabError("; ".join(self._trouble.values()))
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            missing = ", ".join(sorted(wanted - self._ready))
            raise LabError(f"not ready within {READY_S:g} s: {missing}") from None
        self._is_running = True

    async def _say_down(self, name: NodeName, reason: str) -> None:
        try:
            await self.transport.ask(name, "down", {"reason": reason}, timeout_s=5.0)
        except AskError as error:
            log.warning("%s was not told to end: %s", name, error)

    async def close(self) -> None:
        """End the machines, and leave the fabric."""
        for task in tuple(self._tasks):
            task.cancel()
        reason = f"lab {self._model.name} has ended"
        await asyncio.gather(*(self._say_down(name, reason) for name in list(self.nodes)))
        await self.transport.stop()


class Member(Machine):
    """A machine that joins a coordinator."""

    def __init__(
        self, transport: Transport, *, progress: Callable[[str], None], expected: str | None = None
    ) -> None:
        """Prepare. Args: expected: the text of the lab file that it has; another one is refused."""
        super().__init__(transport, progress)
        self._expected = None if expected is None else digest_of(expected)
        self._digest = ""
        self._given: asyncio.Future[Lab] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        """The coordinator has said that it is over."""
        self.reason = ""
        """Why it is over."""
        self._follower: Follower | None = None
        self._coordinator = NodeName("")
        self._task: asyncio.Task[None] | None = None
        self.verbs |= {"start": self._start, "program": self._program, "down": self._down}

    async def join(self) -> Lab | None:
        """Join the fabric and wait for a share; return it, not started, or None if there is to be none."""
        await self.transport.start()
        self.progress(f"{self.transport.name} waits for its share of the lab")
        ended = asyncio.ensure_future(self.ended.wait())
        waiting: set[asyncio.Future[Any]] = {ended, self._given}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        return self._given.result() if self._given.done() else None

    def _check_asker(self, asker: NodeName) -> None:
        state = self.nodes.get(asker)
        if state is None or not state.is_coordinator:
            raise ClusterError(f"{asker} is not the coordinator of this fabric")

    async def _start(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self._check_asker(asker)
        digest = str(body["digest"])
        if self._expected is not None and digest != self._expected:
            raise ClusterError(f"{self.transport.name} has another lab file than the coordinator")
        if self._digest and digest != self._digest:
            raise ClusterError(f"{self.transport.name} runs its share of another lab file: end it first")
        self._coordinator = asker
        if self._digest:
            if self._follower is not None:
                self._follower.forget()
                self._ready_soon()
            return {"runs": True}
        model = parse_lab(str(body["text"]), str(body["file"]))
        placement = place_lab(model, [str(name) for name in body["machines"]])
        netdev: NetdevKind = "memory" if body["netdev"] == "memory" else "tap"
        lab = self._make_lab(model, placement, manages=False, file=str(body["file"]), netdev=netdev)
        self._digest = digest
        hosts = ", ".join(placement.hosts[str(self.transport.name)]) or "no hosts"
        self.progress(f"lab {model.name}: {hosts}")
        self._given.set_result(lab)
        return {"runs": False}

    def _came(self, name: NodeName, state: NodeState) -> None:
        super()._came(name, state)
        if state.is_coordinator and self._follower is not None:
            self._follower.forget()

    def _attach(self, world: World) -> None:
        super()._attach(world)
        assert self.boundary is not None  # noqa: S101 - made just now
        for name, state in list(self.nodes.items()):
            self.boundary.set_peer(name, True, state.life)
            self._measure_soon(name)
        loop = asyncio.get_running_loop()
        self._follower = Follower(world, self.transport, self._coordinator, loop)
        world.ends.add("reports to the coordinator", self._follower.close)
        world.ends.add("readiness", self._end_readiness)

    async def _program(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self._check_asker(asker)
        if self._follower is None:
            raise ClusterError(f"{self.transport.name} has no share of the lab yet")
        nodes = body.get("nodes")
        if not isinstance(nodes, Mapping):
            raise ClusterError("a program without nodes")
        self._follower.program(nodes)
        return {}

    async def _down(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self._check_asker(asker)
        self.reason = str(body.get("reason", ""))
        self.ended.set()
        return {}

    async def _await_others(self) -> None:
        self._ready_soon()

    def _ready_soon(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._say_ready())

    async def _say_ready(self) -> None:
        """Tell the coordinator once every VNIC here is operational."""
        while self._not_up():  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(_LOOK_AGAIN_S)  # the kernel reports "up" in its own time
        try:
            await self.transport.ask(self._coordinator, "ready", {})
        except AskError as error:
            log.warning("the coordinator does not hear that this machine is ready: %s", error)

    async def _end_readiness(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def close(self) -> None:
        """Leave the fabric."""
        await self.transport.stop()


async def _pong(_asker: NodeName, _body: dict[str, Any]) -> dict[str, Any]:
    return {}
