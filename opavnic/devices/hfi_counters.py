"""The counters of an HFI in sysfs: `ports/N/counters`, as the IB core has them, and `hw_counters`, as hfi1 has them.

All are the registers that the port's performance management agent answers from: what `opapmaquery` clears is cleared
here. Of hfi1's more than 100 names in `hw_counters`, those are here for which this fabric has the value, as Linux 6.1
spells them: `,32` marks a register of 32 bits.

Source: drivers/infiniband/core/sysfs.c of Linux; chip.c of hfi1, `dev_cntrs` and `port_cntrs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hfi_sim.management.pma.ib_form import sysfs_counters
from hfi_sim.nodes.hfi import Hfi, HfiPort
from hfi_sim.wire.mad.pma_ib_attributes import LIMITS
from opavnic.devices.tree import Tree

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
