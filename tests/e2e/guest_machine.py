"""A small virtual machine: Debian's cloud kernel and busybox, which says on its console what it sees."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

KERNEL_DIR = Path(__file__).parents[2] / "build" / "guests"
"""Where `make test-guests` unpacks a kernel."""
BUSYBOX = Path("/bin/busybox")
_MODULES = (
    *("drivers/virtio/virtio", "drivers/virtio/virtio_ring", "drivers/virtio/virtio_pci_modern_dev"),
    *("drivers/virtio/virtio_pci_legacy_dev", "drivers/virtio/virtio_pci"),
    *("net/core/failover", "drivers/net/net_failover", "drivers/net/virtio_net"),
)
"""What a virtio-net device needs. Which of them needs which other one changes with the kernel: each is tried thrice."""
_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
echo 0 > /proc/sys/kernel/printk
for pass in 1 2 3; do for module in {modules}; do insmod /lib/$module.ko 2>/dev/null; done; done
ip link set eth0 up
ip address add {address} dev eth0
echo the machine is up
while read line; do $line; echo "exit status $?"; done
poweroff -f
"""


def kernel_image() -> Path:
    """Return the kernel; skip the test where there is none."""
    found = sorted(KERNEL_DIR.glob("boot/vmlinuz-*"))
    missing = [name for name in ("qemu-system-x86_64", str(BUSYBOX)) if shutil.which(name) is None]
    if missing or not found:
        lack = [*missing, *([] if found else [f"a kernel in {KERNEL_DIR}"])]
        pytest.skip(f"not installed: {', '.join(lack)} (make test-guests installs it)")
    return found[-1]


def boot_options(directory: Path, address: str) -> list[str]:
    """Return what starts the machine beside the options that a document gives; files go into a directory.

    Args:  address: what it gives to its first interface, with the length of the prefix.
    """
    kernel, initrd = kernel_image(), directory / "initrd.gz"
    initrd.write_bytes(_initrd(directory / "initrd", kernel, address))
    # software emulation is everywhere; what KVM does in a nested machine depends on the machine
    options = ["-accel", "tcg", "-no-reboot", "-monitor", "none", "-serial", "stdio", "-display", "none"]
    return [
        *options,
        "-kernel",
        str(kernel),
        "-initrd",
        str(initrd),
        "-append",
        "console=ttyS0 quiet panic=-1",
    ]


def _initrd(root: Path, kernel: Path, address: str) -> bytes:
    """Return a packed archive of the files that the machine starts with."""
    modules = KERNEL_DIR / "lib" / "modules" / kernel.name.removeprefix("vmlinuz-") / "kernel"
    for name in ("bin", "lib", "proc", "sys", "dev"):
        (root / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin" / "busybox")
    for module in _MODULES:
        shutil.copy(modules / f"{module}.ko", root / "lib")
    names = " ".join(Path(module).name for module in _MODULES)
    (root / "init").write_text(_INIT.format(modules=names, address=address))
    (root / "init").chmod(0o755)
    files = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    command = [str(BUSYBOX), "cpio", "-o", "-H", "newc"]
    packed = subprocess.run(command, input=files.encode(), cwd=root, capture_output=True, check=True).stdout
    return gzip.compress(packed, 1)
