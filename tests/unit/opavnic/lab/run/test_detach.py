"""The parent of a lab in the background: what ends it while the lab is being made ends the lab as well."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
from opavnic.lab.run.detach import spawn

def body(tell):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    tell("progress", os.getpid())
    while True:
        signal.pause()

told = spawn(body)
word, pid = next(told)
assert word == "progress"
try:
    {end}
except KeyboardInterrupt:
    print("interrupted")
try:
    os.kill(pid, 0)
except ProcessLookupError:
    print("gone")
"""


READY = """
import os, signal
from opavnic.lab.run.detach import spawn
from opavnic.base.signals import interruptible

def body(tell):
    tell("ready", os.getpid())
    signal.pause()

try:
    with interruptible():
        for word, pid in spawn(body):
            os.kill(os.getpid(), signal.{number})
            print(word)
except KeyboardInterrupt:
    print("interrupted")
os.kill(pid, signal.SIGKILL)
print("was there")
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_parent_of_a_lab_that_is_ready_cannot_be_interrupted_any_more(number: str) -> None:
    program = [sys.executable, "-c", READY.format(number=number)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\nwas there\n", "")


@pytest.mark.parametrize(
    ("end", "said"), [("told.throw(KeyboardInterrupt)", "interrupted\ngone\n"), ("told.close()", "gone\n")]
)
def test_parent_that_is_interrupted_ends_the_lab_and_waits_for_it(end: str, said: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(end=end)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (said, "")
