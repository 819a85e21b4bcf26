"""The drivers of Linux that a kernel is built with, none of whose files is changed, and what is ours around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LinuxDriver:
    """A driver of Linux."""

    name: str
    directory: str
    """Where it is in a kernel's tree."""
    option: str
    """What Kconfig calls it."""
    is_module: bool = True
    """Whether it is loaded into a kernel that runs, and not a part of it."""
    is_copied: bool = False
    """Whether its directory is copied and built beside the tree: Kconfig leaves it out for user mode."""
    last: str = ""
    """The last version of Linux that has it; empty: it is still there."""


OPA_VNIC: Final = LinuxDriver(
    "opa_vnic",
    "drivers/infiniband/ulp/opa_vnic",
    "CONFIG_INFINIBAND_OPA_VNIC",
    is_module=False,
    last="7.0",
)
HFI1: Final = LinuxDriver("hfi1", "drivers/infiniband/hw/hfi1", "CONFIG_INFINIBAND_HFI1", is_copied=True)
HFIS: Final = {OPA_VNIC.name: 1, HFI1.name: 2}
"""HFIs of one kernel at most, each with one port, by the driver that has them (opa_virtual_hfi/machine.h)."""
DRIVERS: Final = (
    OPA_VNIC,
    LinuxDriver("ib_uverbs", "drivers/infiniband/core", "CONFIG_INFINIBAND_USER_ACCESS"),
    LinuxDriver("rdmavt", "drivers/infiniband/sw/rdmavt", "CONFIG_INFINIBAND_RDMAVT", is_copied=True),
    HFI1,
    LinuxDriver("ib_ipoib", "drivers/infiniband/ulp/ipoib", "CONFIG_INFINIBAND_IPOIB"),
)
"""In the order in which modules are loaded; each needs those before it, but hfi1 can do without opa_vnic."""

OURS: Final = {
    "config": "the configuration of the kernel",
    "drivers/Kbuild": "builds the copies of the drivers that Kconfig leaves out for user mode",
    "drivers/user_mode.h": "names of x86 that rdmavt takes for granted",
    "opa_sim_hfi": "a module in hfi1's place below opa_vnic",
    "opa_virtual_hfi": "a module below hfi1: a PCI host bridge, and a model of an HFI1",
    "../firmware.py": "firmware for the model, which runs none",
    "opa_sim_agent": "a module that leads to the first program",
    "init.c, agent.c": "the first program, which starts others",
    "seeded.c": "random numbers from a seed",
}
"""What is ours around the drivers, and what it is for; paths in opavnic/kernel/source."""

LOADED: Final = {
    OPA_VNIC: ("opa_sim_agent agent=$agent", "opa_sim_hfi wire=$wire"),
    HFI1: (
        "opa_sim_agent agent=$agent",
        "ib_uverbs",
        "rdmavt",
        "opa_virtual_hfi wire=$wire guid=$guid",
        "hfi1 eager_buffer_size=262144 krcvqs=1",
        "ib_ipoib",
    ),
}
"""The modules that a kernel loads, with their parameters (source/init.c), by the driver that has the HFI's port."""


def ours_for(driver: LinuxDriver) -> list[str]:
    """Return the names of our modules that are loaded for a driver."""
    return [name for line in LOADED[driver] if (name := line.split()[0]).startswith("opa_")]
