"""What is done to the machines of a cluster: each action begins something, and what it leaves ends with the round."""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from chaos.cluster_world import LATE, World
from opavnic.cluster.zenoh.sockets import TICKET_SIZE
from opavnic_bench.base.turns import PeerError
from opavnic_bench.cluster.machines import PORT

Action = Callable[[World, random.Random], None]
_LIMIT_S: Final = 3.0


def kill_member(world: World, rng: random.Random) -> None:
    """The process of a member is killed, and started again some time later."""
    name = rng.choice(("m2", "m3"))
    world.kill(name)
    time.sleep(rng.choice((0.0, rng.uniform(0, 8))))
    world.start(name)


def kill_coordinator(world: World, rng: random.Random) -> None:
    """The coordinator is killed, and started again some time later with the same command."""
    world.kill("m1")
    time.sleep(rng.choice((0.0, rng.uniform(0, 8))))
    world.start("m1")


def kill_two(world: World, rng: random.Random) -> None:
    """Two machines are killed at once; they come back one after the other."""
    first, second = rng.sample(world.machines.names, 2)
    world.kill(first)
    world.kill(second)
    time.sleep(rng.uniform(0, 3))
    world.start(first)
    time.sleep(rng.uniform(0, 3))
    world.start(second)


def stop_machine(world: World, rng: random.Random) -> None:
    """A machine stands still, for shorter or longer than others wait for it."""
    name = rng.choice(world.machines.names)
    world.note(f"stop {name}")
    world.stop(name, False)
    time.sleep(rng.choice((rng.uniform(0.05, 2), rng.uniform(5.5, 9))))
    world.stop(name, True)


def leave_machine_stopped(world: World, rng: random.Random) -> None:
    """A machine stands still until the round ends, whatever else happens."""
    name = rng.choice(world.machines.names)
    world.note(f"stop {name}")
    world.stop(name, False)
    time.sleep(rng.uniform(0, 2))


def cut_off(world: World, rng: random.Random) -> None:
    """The cable of a machine is pulled, for shorter or longer than others wait for it."""
    name = rng.choice(world.machines.names)
    world.note(f"unplug {name}")
    world.machines.plug(name, plugged=False)
    time.sleep(rng.choice((rng.uniform(0.05, 3), rng.uniform(5.5, 9))))
    world.machines.plug(name, plugged=True)


def leave_cut_off(world: World, rng: random.Random) -> None:
    """The cable of a machine is pulled until the round ends."""
    name = rng.choice(world.machines.names)
    world.note(f"unplug {name}")
    world.machines.plug(name, plugged=False)
    time.sleep(rng.uniform(0, 2))


def part_two(world: World, rng: random.Random) -> None:
    """Two machines do not reach each other, but both reach the third."""
    one, other = rng.sample(world.machines.names, 2)
    world.note(f"{one} and {other} are apart")
    world.machines.part(one, other, apart=True)
    time.sleep(rng.choice((rng.uniform(0.1, 3), rng.uniform(5.5, 10))))
    world.machines.part(one, other, apart=False)


def loose_cable(world: World, rng: random.Random) -> None:
    """The cable of a machine comes and goes."""
    name = rng.choice(world.machines.names)
    world.note(f"loose cable of {name}")
    for _ in range(rng.randint(3, 15)):
        world.machines.plug(name, plugged=False)
        time.sleep(rng.uniform(0, 0.4))
        world.machines.plug(name, plugged=True)
        time.sleep(rng.uniform(0, 0.4))


def slow_disk(world: World, rng: random.Random) -> None:
    """All that writes to the disk of a machine waits for seconds, while there is much to write."""
    name = rng.choice(world.machines.names)
    disk = world.disks[name]
    if not disk.is_own:
        world.figures.skipped["slow_disk"] += 1
        return
    seconds = rng.choice((rng.uniform(0.2, 3), rng.uniform(5.5, 9)))
    disk.mend()
    world.note(f"the disk of {name} is slow for {seconds:.1f} s")
    disk.slow_down(seconds)
    _faults(world, rng)
    disk.mend()


def full_disk(world: World, rng: random.Random) -> None:
    """The disk of a machine has no room until the round ends."""
    name = rng.choice(world.machines.names)
    if not world.disks[name].is_own:
        world.figures.skipped["full_disk"] += 1
        return
    world.note(f"the disk of {name} is full")
    world.disks[name].fill()
    _faults(world, rng)


def faults(world: World, rng: random.Random) -> None:
    """Faults are set on links and nodes of all machines, and cleared when the round settles."""
    _faults(world, rng)


def _faults(world: World, rng: random.Random) -> None:
    texts = (
        "loss on h2 5%",
        "link-down on h3",
        "delay on h1 delay=2ms",
        "duplicate on h2 3%",
        "corrupt on h1 2%",
    )
    with contextlib.suppress(PeerError):  # the coordinator may be away
        for text in rng.sample(texts, 2):
            world.cluster.opavnic("m1", "fault", "add", text)
        time.sleep(rng.uniform(0, 2))
        world.cluster.opavnic("m1", "fault", "clear")


def late_machines(world: World, rng: random.Random) -> None:
    """Machines want to join: of another CA, under the name of a member, and one for which there is no share."""
    here = world.machines.directory
    for credentials, name in rng.sample(
        [(here / "other-ca" / "m2", "m2"), (here / "other-ca" / LATE, LATE), (here / "ca" / LATE, LATE)], 2
    ):
        world.note(f"{name} of {credentials.parent.name} wants to join")
        world.as_late_machine(credentials, name)
    time.sleep(rng.uniform(1, 4))


def wrong_certificates(world: World, rng: random.Random) -> None:
    """TLS peers without a certificate, with one of another CA, or with one of another machine, on both ports."""
    for _ in range(rng.randint(5, 20)):
        machine = rng.choice(world.machines.names)
        port = rng.choice(_ports(world, machine))
        folder = rng.choice((None, Path("other-ca/m2"), Path("ca") / LATE))
        _knock(world, rng, machine, port, folder)


def nonsense(world: World, rng: random.Random) -> None:
    """Strangers send any bytes to both ports, or say nothing and stay."""
    for _ in range(rng.randint(5, 40)):
        machine = rng.choice(world.machines.names)
        port = rng.choice(_ports(world, machine))
        with contextlib.suppress(OSError):
            peer = _connected(world, machine, port)
            world.figures.strangers += 1
            world.open_things.append(peer)
            if rng.random() < 0.7:
                peer.sendall(rng.choice((b"", b"\x16\x03\x01")) + rng.randbytes(rng.randint(1, 3000)))


def _ports(world: World, machine: str) -> list[int]:
    """Return where a machine listens, for packets last."""
    return [PORT, PORT + 1] if machine == world.machines.names[0] else [PORT]


def _connected(world: World, machine: str, port: int) -> socket.socket:
    address = (world.machines.address(machine), port)
    return world.as_stranger(lambda: socket.create_connection(address, _LIMIT_S))


def _knock(world: World, rng: random.Random, machine: str, port: int, folder: Path | None) -> None:
    """Guess a ticket, and shake hands. What follows is read until the other end hangs up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if folder is not None:
        here = world.machines.directory / folder
        context.load_cert_chain(here / "node.pem", here / "node.key")
    data = rng.choice((b"", b"GET /status HTTP/1.1\r\nHost: lab\r\n\r\n", rng.randbytes(60)))
    heard = b""
    world.figures.strangers += 1
    with contextlib.suppress(OSError):
        peer = _connected(world, machine, port)
        world.open_things.append(peer)
        if port == _ports(world, machine)[-1]:
            peer.sendall(rng.randbytes(TICKET_SIZE))
        with context.wrap_socket(peer) as secured:
            secured.sendall(data)
            heard = secured.recv(4096)
    if port == _ports(world, machine)[-1] and heard:
        world.found(f"{machine} talks to a stranger with {folder or 'no certificate'}")
    world.figures.strangers_refused += not heard


ACTIONS: Final[dict[str, Action]] = {
    action.__name__: action
    for action in (
        kill_member, kill_coordinator, kill_two, stop_machine, leave_machine_stopped, cut_off, leave_cut_off, part_two,
        loose_cable, slow_disk, full_disk, faults, late_machines, wrong_certificates, nonsense,
    )
}  # fmt: skip
