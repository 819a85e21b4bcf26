"""The counters of a VNIC as the attributes that the Ethernet Manager reads."""

from __future__ import annotations

from opavnic.vnic.counters import TrafficCounters, VnicCounters
from vema.attributes.counters import CounterGroup, ErrorCounters, SummaryCounters


def group_of(traffic: TrafficCounters) -> CounterGroup:
    """Return the counts of one direction by kind and size."""
    return CounterGroup(
        traffic.unicast, traffic.mcastbcast, traffic.untagged, traffic.vlan, tuple(traffic.sizes)
    )


def summary_of(counters: VnicCounters, vport_num: int, vesw_id: int, opa_port_num: int) -> SummaryCounters:
    """Return attribute 0x0020 of a vport."""
    return SummaryCounters(
        vport_num=vport_num,
        vesw_id=vesw_id,
        opa_port_num=opa_port_num,
        tx_errors=counters.tx_errors,
        rx_errors=counters.rx_errors,
        tx_packets=counters.tx.packets,
        rx_packets=counters.rx.packets,
        tx_bytes=counters.tx.bytes,
        rx_bytes=counters.rx.bytes,
        tx_group=group_of(counters.tx),
        rx_group=group_of(counters.rx),
    )


def errors_of(counters: VnicCounters, vport_num: int, vesw_id: int, opa_port_num: int) -> ErrorCounters:
    """Return attribute 0x0022 of a vport."""
    return ErrorCounters(
        vport_num=vport_num,
        vesw_id=vesw_id,
        opa_port_num=opa_port_num,
        tx_errors=counters.tx_errors,
        rx_errors=counters.rx_errors,
        tx_smac_filt=counters.tx_smac_filt,
        tx_dlid_zero=counters.tx_dlid_zero,
        tx_logic=counters.tx_fifo_errors + counters.tx_carrier_errors,
        tx_drop_state=counters.tx_drop_state,
        rx_bad_veswid=counters.rx_nohandler,
        rx_runt=counters.rx_runt,
        rx_oversize=counters.rx_oversize,
        rx_drop_state=counters.rx_drop_state,
        rx_logic=counters.rx_fifo_errors,
    )
