"""Actions: the Ethernet Manager is told many things, at once, over a fabric that loses, delays and breaks."""

from __future__ import annotations

import copy
import random
import re
import threading
import time
from typing import Any

from chaos.deck import action
from chaos.world import World
from opavnic.lab.file.errors import ConfigError, LabError

_DELAYS = ("10us", "200us", "2ms")


@action
def valid_configurations(world: World, rng: random.Random) -> None:
    """One configuration after the other, each without waiting much for the one before."""
    for _ in range(rng.randint(1, 4)):
        _apply(world, some_config(world, rng))


@action
def invalid_configurations(world: World, rng: random.Random) -> None:
    """Configurations that cannot be: refused, and nothing changes."""
    for _ in range(rng.randint(1, 6)):
        config = _spoiled(some_config(world, rng), rng)
        try:
            world.steady.apply(config)
        except ConfigError:
            continue
        except LabError as error:
            _judge(world, error, "a configuration that cannot be")
    done = world.programs.run("em", "apply", str(world.em_file({"vesws": 7})), "--lab", world.steady.name)
    if done.code != 2:
        world.found(f"`opavnic em apply` of nonsense ended with {done.code}")


@action
def applies_at_once(world: World, rng: random.Random) -> None:
    """Several configurations at the same time."""
    configs = [some_config(world, rng) for _ in range(rng.randint(2, 4))]
    threads = [threading.Thread(target=_apply, args=(world, config), daemon=True) for config in configs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    if any(thread.is_alive() for thread in threads):
        world.found("a concurrent `em apply` was not answered within 90 s")


@action
def storm(world: World, rng: random.Random) -> None:
    """Loss, duplicates, delay, corruption, reorder; below them configurations and crashes."""
    for _ in range(rng.randint(1, 4)):
        _fault(world, _packet_fault(world, rng))
    threads = [
        threading.Thread(target=_apply, args=(world, some_config(world, rng)), daemon=True)
        for _ in range(rng.randint(1, 2))
    ]
    for thread in threads:
        thread.start()
    for _ in range(rng.randint(0, 2)):
        time.sleep(rng.uniform(0, 0.3))
        _fault(world, f"crash on {rng.choice(world.steady.hosts)} for={rng.choice((10, 200, 900))}ms")
    for thread in threads:
        thread.join(90)
    if any(thread.is_alive() for thread in threads):
        world.found("an `em apply` over a bad fabric was not answered within 90 s")


@action
def breaks(world: World, rng: random.Random) -> None:
    """Links go down and come back, switches boot, HFIs are pulled, drivers crash."""
    links = [link["name"] for link in world.steady.status()["links"]]
    switches = sorted({end for link in links for end in re.findall(r"\b(?:sw|leaf|spine)\d+", link)})
    hosts = world.steady.hosts
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(6)
        _fault(
            world,
            [
                f"link-down on {rng.choice(links).replace('->', '--')} for={rng.randint(1, 800)}ms",
                f"port-error on {rng.choice(hosts)} count={rng.randint(1, 3)}",
                f"switch-reboot on {rng.choice(switches)} for={rng.randint(1, 800)}ms",
                f"hfi-removal on {rng.choice(hosts)} for={rng.randint(1, 800)}ms",
                f"crash on {rng.choice(hosts)} for={rng.randint(1, 800)}ms every=1s count=2",
                f"partition on {rng.choice(hosts)} for={rng.randint(1, 800)}ms",
            ][kind],
        )
        time.sleep(rng.uniform(0, 0.4))


@action
def faults_that_make_no_sense(world: World, rng: random.Random) -> None:
    """Faults of any words, numbers of none; and all are cleared while others come."""
    words = [
        "loss",
        "on",
        "s1",
        "*",
        "300%",
        "for=",
        "for=-1s",
        "count=99999999999",
        "delay=1y",
        "crash",
        "sw9",
    ]
    words.append("\x1b[2J")
    for _ in range(rng.randint(3, 12)):
        _fault(world, " ".join(rng.choice(words) for _ in range(rng.randint(0, 6))))
    try:
        world.steady.ask("POST", "/faults/remove", {"number": rng.randrange(-5, 99)})
    except LabError as error:
        _judge(world, error, "removing a fault")
    _fault(world, _packet_fault(world, rng))
    world.programs.run("fault", "clear", "--lab", world.steady.name)


def some_config(world: World, rng: random.Random) -> dict[str, Any]:
    """Return a configuration that the steady lab can have: its partitions, its hosts, anything else drawn."""
    config = copy.deepcopy(world.steady.base)
    config["mac"] = rng.choice(("learn", "locally-administered"))
    for vesw in config["vesws"]:
        vesw["mtu"] = rng.choice((68, 1280, 1500, 9000, 10240))
        vesw["link"] = rng.choice(("up", "up", "down"))
        members = list(vesw["members"])
        vesw["members"] = sorted(rng.sample(members, rng.randint(1, len(members))))
        vesw["mac"] = rng.choice((None, "learn", "locally-administered"))
        if rng.random() < 0.3:
            vesw["id"] = rng.randint(4, 4000) * 2 + (vesw["id"] & 1)
            vesw["id"] = min(vesw["id"], 4094 + (vesw["id"] & 1))
        if rng.random() < 0.3:
            vesw["default_ports"] = vesw["members"][:1]
    rng.shuffle(config["vesws"])
    if rng.random() < 0.3:
        config["vesws"] = config["vesws"][: rng.randint(0, 1)]
    return config


def _spoiled(config: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    spoil = rng.choice(("key", "value", "member", "type", "twice"))
    if spoil == "key" or not config["vesws"]:
        config["no such key"] = 1
    elif spoil == "value":
        config["vesws"][0]["id"] = rng.choice((0, -1, 4096, 1 << 70, "2", None, 2.5))
    elif spoil == "member":
        config["vesws"][0]["members"] = ["s1", "nobody"]
    elif spoil == "type":
        config["vesws"][0] = rng.choice(([], "x", 7, None))
    else:
        config["vesws"].append(config["vesws"][0])
    return config


def _packet_fault(world: World, rng: random.Random) -> str:
    kind = rng.choice(("loss", "duplicate", "delay", "corrupt", "reorder"))
    place = rng.choice(("*", *world.steady.hosts))
    extra = f" delay={rng.choice(_DELAYS)}" if kind == "delay" else ""
    only = rng.choice(("", " l4=mad", " l4=ethernet"))
    return f"{kind} on {place} {rng.randint(1, 30)}%{only}{extra}"


def _apply(world: World, config: dict[str, Any]) -> None:
    world.note(f"em apply of {[(v['id'], v['mtu'], v['link'], v['members']) for v in config['vesws']]}")
    world.figures.actions["(applies)"] += 1
    try:
        world.steady.apply(config)
    except LabError as error:
        _judge(world, error, "a valid configuration")


def _fault(world: World, text: str) -> None:
    world.note(f"fault {text!r}")
    world.figures.actions["(faults)"] += 1
    try:
        world.steady.ask("POST", "/faults", {"fault": text})
    except LabError as error:
        _judge(world, error, f"fault {text!r}")


def _judge(world: World, error: LabError, what: str) -> None:
    """A refusal is one line that makes sense; no answer, or an internal error, is a finding."""
    text = str(error)
    if "internal error" in text or "incomplete answer" in text or "does not answer" in text:
        world.found(f"{what}: {text[:300]}")
