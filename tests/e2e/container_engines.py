"""podman and docker themselves, with images, containers, locks and sockets of the test's own.

No registry is needed: an image is made of busybox alone, and bears the name that a documented command asks for.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from processes import child
from program import ok

BUSYBOX = Path("/bin/busybox")
APPLETS = ("sh", "ping", "ip", "sleep", "cat", "hostname")
_CGROUP2 = "cgroup2fs"


@dataclass(frozen=True, slots=True)
class Containers:
    """An engine that holds nothing yet but an image."""

    engine: str
    environment: dict[str, str]
    """What a program must be given to mean this engine, and no other of the machine."""

    def run(self, *words: str) -> str:
        """Run the engine's own program; return what it printed."""
        command = [self.engine, *words]
        return ok(
            subprocess.run(
                command, env=self.environment, capture_output=True, text=True, timeout=60, check=False
            )
        )

    def has(self, name: str) -> bool:
        """Return whether a container runs."""
        return name in self.run("ps", "--format", "{{.Names}}").split()


def require_programs(*programs: str) -> None:
    """Skip a test where one of these is not installed."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (make test-guests installs it)")


@contextlib.contextmanager
def containers(engine: str, image: str) -> Iterator[Containers]:
    """Yield an engine with an image whose program sleeps; everything ends with the context."""
    require_programs(*({"docker": ("dockerd",)}.get(engine, (engine,))), str(BUSYBOX))
    made = _podman if engine == "podman" else _docker
    # paths of sockets are short
    with (
        tempfile.TemporaryDirectory(prefix="opa", ignore_cleanup_errors=True) as name,
        made(Path(name)) as its,
    ):
        subprocess.run(
            [engine, "import", "--change", 'CMD ["/bin/sleep", "1000"]', "-", image],
            env=its.environment,
            input=_files(),
            capture_output=True,
            timeout=60,
            check=True,
        )
        try:
            yield its
        finally:
            for name in its.run("ps", "--quiet").split():
                its.run("kill", name)  # a program that is pid 1 hears no SIGTERM: `rm` would wait for 10 s
            for name in its.run("ps", "--all", "--quiet").split():
                its.run("rm", "--force", name)


def _files() -> bytes:
    """Return an archive of the files of a container: busybox, under the names of its applets."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for directory in ("proc", "sys", "dev", "etc", "tmp"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        tar.add(BUSYBOX.resolve(), "bin/busybox")
        for name in APPLETS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return packed.getvalue()


def _environment(directory: Path, program: str) -> dict[str, str]:
    """Return an environment in which a program finds cgroups of version 2 alone, as engines want them."""
    environment = dict(os.environ)
    kind = subprocess.run(
        ["stat", "--file-system", "--format", "%T", "/sys/fs/cgroup"],
        capture_output=True,
        text=True,
        check=False,
    )
    if kind.stdout.strip() != _CGROUP2:
        found = shutil.which(program)
        wrapper = directory / "bin" / program
        wrapper.parent.mkdir()
        wrapper.write_text(
            "#!/bin/sh\n"
            "exec unshare --mount sh -c 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup &&"
            f' exec {found} "$@"\' sh "$@"\n'
        )
        wrapper.chmod(0o755)
        environment["PATH"] = f"{wrapper.parent}:{environment['PATH']}"
    return environment


@contextlib.contextmanager
def _podman(directory: Path) -> Iterator[Containers]:
    (directory / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{directory}/images"\nrunroot = "{directory}/run"\n'
    )
    # the limits that it gives by default are more than a process without CAP_SYS_RESOURCE may have
    limits = '["nofile=1024:1024", "nproc=1024:1024"]'
    (directory / "containers.conf").write_text(
        f'[containers]\ncgroups = "disabled"\ndefault_ulimits = {limits}\n'
        '[engine]\nlock_type = "file"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        f'static_dir = "{directory}/static"\ntmp_dir = "{directory}/state"\nvolume_path = "{directory}/volumes"\n'
    )
    environment = _environment(directory, "podman")
    environment["CONTAINERS_CONF"] = str(directory / "containers.conf")
    environment["CONTAINERS_STORAGE_CONF"] = str(directory / "storage.conf")
    yield Containers("podman", environment)


@contextlib.contextmanager
def _docker(directory: Path) -> Iterator[Containers]:
    host = f"unix://{directory}/socket"
    environment = _environment(directory, "dockerd")
    command = [
        *("dockerd", f"--host={host}", f"--data-root={directory}/data", f"--exec-root={directory}/exec"),
        *(f"--pidfile={directory}/pid", "--storage-driver=vfs", "--bridge=none"),
        *("--iptables=false", "--ip6tables=false", "--ip-forward=false"),
    ]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready,
        (directory / "log").open("w") as log,
    ):
        ready.bind(str(directory / "ready"))
        ready.settimeout(60)
        started = environment | {"NOTIFY_SOCKET": str(directory / "ready")}
        with child(command, env=started, stderr=log) as daemon:
            told = ready.recv(4096)
            assert b"READY=1" in told, told
            environment["DOCKER_HOST"] = host
            try:
                yield Containers("docker", environment)
            finally:
                daemon.terminate()  # which ends its containerd too
                daemon.wait(60)
