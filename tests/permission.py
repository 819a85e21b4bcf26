"""Whether tests that change the machine may run here: skipped with a reason if not, a failure if they must run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.drivers import OPA_VNIC, LinuxDriver
from opavnic.lab.file.errors import PrivilegeError
from opavnic.lab.ownership.privileges import check_tun, has_capabilities


def why_not(programs: Iterable[str], *, as_root: bool = False, files: Iterable[str] = ()) -> str | None:
    """Return what this machine lacks for tests that make namespaces and TAPs and start these programs, or None.

    Args:  files: paths of what else must be there.
    """
    try:
        check_tun()
    except PrivilegeError as error:
        return str(error)
    if not has_capabilities() or (as_root and os.getuid() != 0):
        return "no CAP_NET_ADMIN and CAP_SYS_ADMIN: run the tests as root"
    missing = [name for name in programs if shutil.which(name) is None]
    missing += [file for file in files if not Path(file).exists()]
    return f"not installed: {', '.join(missing)} (make deps opa-tools)" if missing else None


def require(programs: Iterable[str], *, as_root: bool = False, files: Iterable[str] = ()) -> None:
    """Skip a test that cannot run here; fail it where OPAVNIC_REQUIRE_E2E=1 says that it must."""
    reason = why_not(programs, as_root=as_root, files=files)
    if reason is None:
        return
    if os.environ.get("OPAVNIC_REQUIRE_E2E") == "1":
        pytest.fail(f"this test is required here and cannot run: {reason}")
    pytest.skip(reason)


def require_kernel(name: str = "", driver: LinuxDriver = OPA_VNIC) -> None:
    """Skip a test where no kernel with the driver is built, or where `make test-kernel` follows."""
    if os.environ.get("OPAVNIC_KERNEL_TESTS") == "later":
        pytest.skip("needs a kernel: make test-kernel")
    try:
        find_kernel(name, driver)
    except KernelError as error:
        pytest.skip(str(error))
