"""Lab files of strangers: each attack ends in a line that names the key and the reason, before anything is made."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import load_lab
from opavnic.lab.file.model import LabModel
from opavnic.lab.untrusted import checked_file as untrusted_process
from opavnic.lab.untrusted.checked_file import load_untrusted
from opavnic.lab.untrusted.rules import untrusted_problems

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
EXAMPLES = Path(__file__).parents[5] / "opavnic" / "examples"
VESWS = "vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]\n"


def lab(h1: str = "", top: str = "", name: str = "x") -> str:
    return f"name: {name}\nhosts: {{h1: {{{h1}}}, h2: {{}}}}\n{VESWS}{top}\n"


BOMB = "".join(f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
ATTACKS = {
    # programs of this machine
    lab(
        "exec: [touch /tmp/owned]"
    ): "2: hosts.h1.exec: refused with --untrusted: it runs programs on this machine",
    lab("exec: [{run: id, vnic: blue}]"): "2: hosts.h1.exec: refused",
    lab("kernel: opa_vnic"): "2: hosts.h1.kernel: refused",
    f"name: x\nhosts: {{'h[1-2]': {{exec: [id]}}}}\n{VESWS}": "2: hosts.h[1-2].exec: refused",
    f"name: x\nx-a: &a {{exec: [id]}}\nhosts: {{h1: *a, h2: {{}}}}\n{VESWS}": "2: hosts.h1.exec: refused",
    f"name: x\nx-a: &a {{exec: [id]}}\nhosts: {{h1: {{<<: *a}}, h2: {{}}}}\n{VESWS}": "2: hosts.h1.exec: refused",
    lab(top="apps: [{kind: ejfat-lb, host: h1}]"): "4: apps: refused",
    # the machine, its namespaces and guests
    lab("netns: host"): "2: hosts.h1.netns: refused with --untrusted: the host would be a network namespace",
    lab("netns: /proc/1/ns/net"): "2: hosts.h1.netns: refused",
    lab("pid: 1"): "2: hosts.h1.pid: refused",
    lab("container: web"): "2: hosts.h1.container: refused",
    lab("tap: tap0"): "2: hosts.h1.tap: refused",
    lab(top="uplinks: {out: {vesw: blue, host: h1, nic: eth0}}"): "4: uplinks: refused",
    lab(top="cluster: {nodes: 2}"): "4: cluster: refused",
    # files of this machine
    lab(
        "lnet: {addresses: [10.1.1.1], targets: /etc/shadow}"
    ): "2: hosts.h1.lnet.targets: refused with --untrusted: it names a file",
    lab(top="x-a: !include /etc/shadow"): "4: x-a: the tag !include is not supported",
    lab(top="x-a: !!python/object/apply:os.system [id]"): "4: x-a: the tag !!python/object/apply:os.system",
    # names that are paths
    lab(name="../../etc/cron.d/x"): "1: name: ",
    lab(name="a/b"): "1: name: ",
    lab(name='"a\\0b"'): "1: ",
    f"name: x\nhosts: {{../h1: {{}}, h2: {{}}}}\n{VESWS}": "2: hosts",
    lab().replace("name: blue", "name: ../blue"): "3: vesws[0].name: ",
    # sysctls outside of the namespace
    lab("sysctls: {kernel.core_pattern: '|/bin/sh'}"): "2: hosts.h1.sysctls.kernel.core_pattern: refused",
    lab("sysctls: {net.core.bpf_jit_enable: 0}"): "2: hosts.h1.sysctls.net.core.bpf_jit_enable: refused",
    lab("sysctls: {net/ipv4/../../kernel/core_pattern: x}"): "2: hosts.h1.sysctls: ",
    lab("sysctls: {net.ipv4./../kernel: x}"): "2: hosts.h1.sysctls: ",
    # variables of this user
    lab(top="x-a: ${AWS_SECRET_ACCESS_KEY}"): "4: x-a: AWS_SECRET_ACCESS_KEY is not set",
    # size
    BOMB.replace("*a0", "x") + lab(): "more than 100000 values",
    f"name: x\nhosts: 4096\n{VESWS}": "2: hosts: refused with --untrusted: 4096 hosts, 64 are the most",
    "name: x\nhosts: {'h[1-20]': {hfis: 16}}\nfabric: {topology: {kind: clos, leaves: 8, spines: 1, "
    "hosts_per_leaf: 48}}\nvesws: [{id: 2, name: blue, members: [h1]}]": "320 HFI ports, 128 are the most",
    lab(top="fabric: {topology: {kind: mesh, dims: 32x32}}"): "1024 switches, 64 are the most",
    lab(top="fabric: {topology: {kind: torus, dims: 99999x99999}}"): "nodes and cables; the most is",
    lab(
        top=f"faults: [{', '.join(['loss on h1 1%'] * 65)}]"
    ): "4: faults: refused with --untrusted: 65 faults",
    lab(top="datapath: {workers: 256}"): "4: datapath.workers: refused",
    lab(top="x-a: " + "[" * 300): "nested too deeply",
    "#" * (1 << 16) + "\n" + lab(): "more than 65536 bytes",
    # what is added to lab files, or what a part brings, is not known yet
    lab(top="new_key: {}\nother: 1"): "5: other: refused with --untrusted: it is not among the keys",
}


@pytest.fixture(autouse=True)
def _memory_of_other_tests_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a check have its memory beside what this process has from other tests: it is forked from this one."""
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    monkeypatch.setattr(untrusted_process, "CHECK_MEMORY", untrusted_process.CHECK_MEMORY + used)


def refusal(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_untrusted(file)
    return str(caught.value)


@pytest.mark.parametrize("text", ATTACKS, ids=[f"{n}" for n in range(len(ATTACKS))])
def test_attack_by_a_lab_file_is_refused_with_key_and_reason(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    said = refusal(file)
    assert ATTACKS[text] in said
    assert "secret" not in said.replace("AWS_SECRET_ACCESS_KEY", "")
    assert len(said.splitlines()) <= untrusted_process.LINES + 1


def test_file_that_is_a_link_or_no_regular_file_is_not_read(tmp_path: Path) -> None:
    secret, link, pipe = tmp_path / "secret", tmp_path / "link.yaml", tmp_path / "pipe"
    secret.write_text("root: $6$hash\n")
    link.symlink_to(secret)
    os.mkfifo(pipe)
    assert refusal(link) == f"{link}: refused with --untrusted: it is a symbolic link"
    assert refusal(pipe) == f"{pipe}: refused with --untrusted: it is not a regular file"
    assert refusal(tmp_path / "none") == f"{tmp_path / 'none'}: No such file or directory"


def test_mistakes_beyond_a_screen_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(lab(top="\n".join(f"key{n}: 1" for n in range(500))))
    lines = refusal(file).splitlines()
    assert (len(lines), lines[-1]) == (21, f"{file}: and 480 more mistakes")


LARGE = lab(top="fabric: {topology: {kind: fat-tree, k: 48}, link: {credits: on}}")


def test_check_that_takes_too_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(LARGE)
    monkeypatch.setattr(untrusted_process, "CHECK_S", 1)
    assert refusal(file) == f"{file}: refused with --untrusted: to check it takes more than 1 s of processor"


IN_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from opavnic.lab.file.errors import ConfigError
from opavnic.lab.untrusted import checked_file
used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
checked_file.CHECK_MEMORY = used + (16 << 20)
try:
    checked_file.load_untrusted(Path(sys.argv[1]))
except ConfigError as error:
    print(error)
"""


def test_check_that_takes_too_much_memory_ends(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(LARGE)
    # a process of its own, as a command has: this one may have room left from other tests
    command = [sys.executable, "-c", IN_LITTLE_MEMORY, str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "refused with --untrusted: to check it takes more than" in said
    assert "MiB of memory" in said


def test_lab_of_a_course_is_as_it_is_without_the_option(tmp_path: Path) -> None:
    for name in ("two-hosts", "two-switches", "clos", "lnet-multi-rail"):
        found = load_untrusted(EXAMPLES / f"{name}.yaml")
        assert found == load_lab(EXAMPLES / f"{name}.yaml")


_KEYS = sorted({*LabModel.model_fields, *load_lab(EXAMPLES / "two-hosts.yaml").hosts["h1"].model_dump()})


@given(st.dictionaries(st.sampled_from(_KEYS) | st.text(max_size=8), st.just("x"), min_size=1))
def test_each_key_of_a_host_that_is_not_known_to_stay_in_the_lab_is_named(section: dict[str, str]) -> None:
    """An oracle of its own: the keys that a person has found to reach nothing outside."""
    harmless = {
        "number",
        "addresses",
        "sysctls",
        "routes",
        "hfis",
        "ports",
        "guid",
        "lid",
        "may_manage",
        "lnet",
    }
    named = {one.path[2] for one in untrusted_problems({"hosts": {"h1": section}})}
    assert named == {key for key in section if key not in harmless and not key.startswith("x-")}
