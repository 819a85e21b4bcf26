"""The files of a host with HFIs: sysfs as the hfi1 driver and the IB core fill it, and the devices umadN and issmN.

    infiniband/hfi1_0/ports/1/    infiniband_mad/umad0/    infiniband_verbs/uverbs0/    dev/{umad0,issm0,uverbs0}

Values are read when a file is opened. uverbs0 leads to /dev/null: libibverbs wants a character device with the number
that sysfs names, which no file of FUSE is; what it asks of it is answered elsewhere (`opavnic.devices.kernel.seccomp`).

`ports/N/counters` are those of the IB core, `hw_counters` those of hfi1: the registers that the port's performance
management agent answers from, so what `opapmaquery` clears is cleared here. Of the 100 names of hfi1 those are here
for which this fabric has the value, as Linux 6.1 spells them: `,32` marks a register of 32 bits.

Source: drivers/infiniband/core/sysfs.c of Linux; chip.c of hfi1, `dev_cntrs` and `port_cntrs`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hfi_sim.base.link_modes import FULL_MODE
from hfi_sim.management.pma.ports import sysfs_counters
from hfi_sim.management.sma.facts import mode_of, neighbor_mtu_of, port_info_of, port_state_info_of
from hfi_sim.management.sma.tables import sc_to_vl_of
from hfi_sim.management.umad.abi import ABI_VERSION, OPA_GID, UmadError
from hfi_sim.management.umad.service import UmadService
from hfi_sim.nodes.hfi import Hfi, HfiPort
from hfi_sim.wire.mad.pma_ib_attributes import LIMITS
from hfi_sim.wire.sma.port_info import PhysicalState, mtu_bytes
from opavnic.devices.tree import DeviceFile, Symlink, Text, Tree

SYS_CLASSES: Final = ("infiniband", "infiniband_mad", "infiniband_verbs")
"""The directories that belong into /sys/class."""
DEV: Final = "dev"
"""The directory that belongs at /dev/infiniband."""
NULL_DEVICE: Final = "/dev/null"
_NULL_NUMBER: Final = "1:3"
_VERBS_ABI: Final = "6"
_PKEYS: Final = 32
"""Entries of a P_Key table in sysfs."""
_DESCRIPTION: Final = 64
"""Bytes of a node description."""
_PHYSICAL_STATES: Final[dict[int, str]] = {
    PhysicalState.POLLING: "Polling",
    PhysicalState.DISABLED: "Disabled",
    PhysicalState.TRAINING: "PortConfigurationTraining",
    PhysicalState.LINK_UP: "LinkUp",
}
_GIDS: Final = 5
"""GIDs of a port."""
_CONTEXTS: Final = 16
"""Contexts for programs' own packets, all free: nothing here opens one."""
_COOL: Final = "42.00 0.00 105.00 115.00 0 0 0"
"""Degrees now, lower, upper and critical limit, and which of these is passed: this chip does not warm up."""
_MODALIAS: Final = "pci:v00008086d000024F0sv00008086sd00002628bc02sc08i00"


class IsSmHandle:
    """An open issmN; there is nothing to do with it but to close it."""

    readable = False
    dead = False

    def __init__(self, port: HfiPort, file: DeviceFile) -> None:
        self.on_news: Callable[[], None] = lambda: None
        self._port = port
        self._file = file

    def read(self, size: int) -> bytes | None:
        """Raises UmadError: EINVAL, as a file without reads does."""
        raise UmadError(errno.EINVAL, f"nothing to read, not even {size} bytes")

    def write(self, data: bytes) -> int:
        """Raises UmadError: EINVAL."""
        raise UmadError(errno.EINVAL, f"nothing to write, not even {len(data)} bytes")

    def ioctl(self, command: int, data: bytes) -> bytes:
        """Raises UmadError: ENOTTY."""
        raise UmadError(errno.ENOTTY, f"no ioctl {command:#x} of {len(data)} bytes")

    def close(self) -> None:
        """Let another program have it."""
        self._port.set_sm(False)
        self._file.freed()


def _is_sm(port: HfiPort) -> DeviceFile:
    """Return issmN: while a program has it open, the port says that a subnet manager runs there."""

    def opened() -> IsSmHandle:
        if port.is_sm:
            raise UmadError(errno.EAGAIN, "another subnet manager has it open")
        port.set_sm(True)
        return IsSmHandle(port, file)

    file = DeviceFile(opened)
    return file


def hfi_tree(hfis: Sequence[Hfi], devices: Iterable[UmadService]) -> Tree:
    """Return the files of a host. Args: devices: those of all ports, HFI by HFI: umad0, umad1, ..."""
    tree = Tree()
    tree.text("infiniband_mad/abi_version", str(ABI_VERSION))
    tree.text("infiniband_verbs/abi_version", _VERBS_ABI)
    numbers = {service.port: (index, service) for index, service in enumerate(devices)}
    for index, hfi in enumerate(hfis):
        name = f"hfi1_{index}"
        _add_hfi(tree, f"infiniband/{name}", hfi)
        _add_verbs(tree, f"uverbs{index}", name)
        for port in hfi.ports.values():
            number, service = numbers[port]
            _add_port(tree, f"infiniband/{name}/ports/{port.opa_port_num}", port)
            for kind in ("umad", "issm"):
                about = f"infiniband_mad/{kind}{number}"
                tree.text(f"{about}/ibdev", name)
                tree.text(f"{about}/port", str(port.opa_port_num))
            tree.add(f"{DEV}/umad{number}", DeviceFile(service.open))
            tree.add(f"{DEV}/issm{number}", _is_sm(port))
    return tree


def _add_hfi(tree: Tree, path: str, hfi: Hfi) -> None:
    """Put the files of an HFI in place; its description can be written, as root of a host does at boot."""

    def describe(data: bytes) -> None:
        hfi.describe(data[:_DESCRIPTION].split(b"\0")[0].decode(errors="replace").rstrip("\n"))

    tree.add(f"{path}/node_desc", Text(lambda: f"{hfi.description}\n", describe))
    guid = _grouped(hfi.node_guid, 64)
    values = {
        "node_type": "1: CA",
        "node_guid": guid,
        "sys_image_guid": guid,
        "fw_ver": "1.27.0",
        "hw_rev": "11",
        "board_id": "opavnic, emulated",
        "boardversion": "ChipABI 3.0, ChipRev 7.17, SW Compat 3",
        "serial": f"0x{(hfi.node_guid & 0xFFFFFF) | (hfi.node_guid >> 11 & 0xF000000):08x}",
        "nctxts": str(_CONTEXTS),
        "nfreectxts": str(_CONTEXTS),
        "tempsense": _COOL,
        "device/modalias": _MODALIAS,
        "device/numa_node": "-1",
    }
    for name, value in values.items():
        tree.text(f"{path}/{name}", value)
    tree.text(f"{path}/device/vendor", lambda: f"{hfi.generation.pci_vendor:#06x}")
    tree.text(f"{path}/device/device", lambda: f"{hfi.generation.device_id:#06x}")
    add_device_counters(tree, path, hfi)


def _add_verbs(tree: Tree, device: str, hfi: str) -> None:
    for name, value in {"ibdev": hfi, "abi_version": "2", "dev": _NULL_NUMBER}.items():
        tree.text(f"infiniband_verbs/{device}/{name}", value)
    tree.add(f"{DEV}/{device}", Symlink(NULL_DEVICE))


def _add_port(tree: Tree, path: str, port: HfiPort) -> None:
    values: dict[str, Callable[[], str]] = {
        "lid": lambda: f"{port.lid:#x}",
        "lid_mask_count": lambda: str(port.lmc),
        "sm_lid": lambda: f"{port.sm_lid:#x}",
        "sm_sl": lambda: str(port.settings.info.master_sm_sl),
        "state": lambda: f"{port.state.value}: {port.state.name}",
        "phys_state": lambda: _physical_state(port),
        "rate": lambda: _rate(port),
        "cap_mask": lambda: f"{port_info_of(port).capability_mask:#010x}",
        "link_layer": lambda: "InfiniBand",
    }
    for name, value in values.items():
        tree.text(f"{path}/{name}", value)
    add_port_counters(tree, path, port)
    _add_tables(tree, path, port)
    for index in range(_GIDS):
        tree.text(f"{path}/gids/{index}", lambda index=index: _gid(port, index))  # type: ignore[misc]
        tree.text(f"{path}/gid_attrs/types/{index}", "IB/RoCE v1")
    for index in range(_PKEYS):
        tree.text(f"{path}/pkeys/{index}", lambda index=index: f"{_pkey(port, index):#06x}")  # type: ignore[misc]


def _add_tables(tree: Tree, path: str, port: HfiPort) -> None:
    """Put hfi1's own directories of a port in place: the tables that a fabric manager sets, an entry for each file."""

    def mtus() -> list[int]:
        return [mtu_bytes(pair >> shift & 0xF) for pair in neighbor_mtu_of(port) for shift in (4, 0)]

    tables: dict[str, tuple[int, Callable[[], Sequence[int]]]] = {
        "sc2vl": (32, lambda: sc_to_vl_of(port)),
        "sl2sc": (32, lambda: port.settings.sl_to_sc),
        "vl2mtu": (16, mtus),
    }
    for name, (entries, read) in tables.items():
        for index in range(entries):
            tree.text(f"{path}/{name}/{index}", lambda read=read, index=index: str(read()[index]))  # type: ignore[misc]


def _physical_state(port: HfiPort) -> str:
    """Return the physical state with the IB core's name; it has none for Omni-Path's own states."""
    state = port_state_info_of(port).physical_state
    return f"{int(state)}: {_PHYSICAL_STATES.get(state, '<unknown>')}"


def _gid(port: HfiPort, index: int) -> str:
    """Return an entry of the GID table: first that of its GUID, then one that hfi1 makes of its LID."""
    of_lid = OPA_GID | port.lid if port.lid else 0
    guid = (port.guid, of_lid)[index] if index < 2 else 0
    return _grouped(port.settings.info.subnet_prefix << 64 | guid, 128)


def _pkey(port: HfiPort, index: int) -> int:
    entries = port.pkeys.entries
    return entries[index] if index < len(entries) else 0


def _rate(port: HfiPort) -> str:
    """Return the rate as the IB core writes it; without a link as hfi1 says then, which is its fastest."""
    return (mode_of(port) if port.link is not None and port.link.up else FULL_MODE).text


def _grouped(number: int, bits: int) -> str:
    """Return a number as sysfs has GUIDs and GIDs: groups of four digits."""
    digits = f"{number:0{bits // 4}x}"
    return ":".join(digits[at : at + 4] for at in range(0, len(digits), 4))


_VLS: Final = (*range(8), 15)
"""The VLs that hfi1 has counters of."""
_WORDS_PER_FLIT: Final = 2
_LIFESPAN_MS: Final = "10"
_OF_THE_PORT: Final[Mapping[str, str]] = {
    "TxPkt": "xmit_pkts",
    "TxWait": "xmit_wait",
    "TxDropped,32": "xmit_discards",
    "RxPkt": "rcv_pkts",
    "SwLinkDown,32": "link_downed",
    "XmitDscd,32": "xmit_discards",
    "XmitCstrErr": "xmit_constraint_errors",
    "RcvCstrErr": "rcv_constraint_errors",
}
_OF_ITS_VLS: Final[Mapping[str, str]] = {
    "TxFlitVL{}": "xmit_data",
    "TxPktVL{}": "xmit_pkts",
    "TxWaitVL{}": "xmit_wait",
    "XmitDscdVl{},32": "xmit_discards",
}
_WORDS: Final[Mapping[str, str]] = {"TxWords": "xmit_data", "RxWords": "rcv_data"}
_OF_THE_DEVICE: Final[Mapping[str, str]] = {
    "DcXmitFlits": "xmit_data",
    "DcRcvFlits": "rcv_data",
    "DcXmitPkts": "xmit_pkts",
    "DcRcvPkts": "rcv_pkts",
    "DcMcXmitPkts": "multicast_xmit_pkts",
    "DcMcRcvPkts": "multicast_rcv_pkts",
    "DcRcvFcn": "rcv_fecn",
    "DcRcvBcn": "rcv_becn",
    "DcRecvErr": "rcv_errors",
    "DcRmtPhyErr": "rcv_remote_physical_errors",
    "DcFmCfgErr": "fm_config_errors",
    "DcUnctblErr": "uncorrectable_errors",
    "RcvOverflow,32": "excessive_buffer_overruns",
    "DcRxReplay": "local_link_integrity_errors",
}


def add_port_counters(tree: Tree, path: str, port: HfiPort) -> None:
    """Put both directories of a port in place. Args:  path: that of the port."""

    def counter(name: str) -> Callable[[], str]:
        return lambda: str(sysfs_counters(port.read_counts())[name])

    def register(name: str, factor: int = 1) -> Callable[[], str]:
        return lambda: str(port.read_counts()[name] * factor)

    def of_vl(name: str, vl: int) -> Callable[[], str]:
        return lambda: str(next(port.read_vl_counts((vl,))).get(name, 0))

    for name in LIMITS:
        tree.text(f"{path}/counters/{name}", counter(name))
    hardware = f"{path}/hw_counters"
    tree.text(f"{hardware}/lifespan", _LIFESPAN_MS)
    for name, source in _OF_THE_PORT.items():
        tree.text(f"{hardware}/{name}", register(source))
    for name, source in _WORDS.items():
        tree.text(f"{hardware}/{name}", register(source, _WORDS_PER_FLIT))
    for name, source in _OF_ITS_VLS.items():
        for vl in _VLS:
            tree.text(f"{hardware}/{name.format(vl)}", of_vl(source, vl))


def add_device_counters(tree: Tree, path: str, hfi: Hfi) -> None:
    """Put the directory of a device in place: sums over its ports. Args:  path: that of the device."""

    def total(name: str) -> Callable[[], str]:
        return lambda: str(sum(port.read_counts()[name] for port in hfi.ports.values()))

    tree.text(f"{path}/hw_counters/lifespan", _LIFESPAN_MS)
    for name, source in _OF_THE_DEVICE.items():
        tree.text(f"{path}/hw_counters/{name}", total(source))
