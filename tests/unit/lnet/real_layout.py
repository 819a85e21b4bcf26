"""A reader of lnetctl's YAML as the real tool prints it: the keys in their order, and the type of each value.

It knows nothing of this project. Source: the public tables local_ni_list, lnet_peer_ni_list and their neighbours,
kiblnd_tunables_keys, lustre_lnet_show_net(), lustre_lnet_show_peer(), the order of jt_show_global() and of
lustre_lnet_show_stats().
"""

from __future__ import annotations

from typing import Any

Layout = dict[str, Any]


def ints(*names: str) -> Layout:
    """Return the layout of integers under these names."""
    return dict.fromkeys(names, int)


COUNTS = ints("send_count", "recv_count", "drop_count")
MESSAGES = ints("put", "get", "reply", "ack", "hello")
TUNABLES = ints("peer_timeout", "peer_credits", "peer_buffer_credits", "credits")
LND_TUNABLES = ints(
    *(
        "peercredits_hiw",
        "map_on_demand",
        "concurrent_sends",
        "fmr_pool_size",
        "fmr_flush_trigger",
        "fmr_cache",
    ),
    *("ntx", "conns_per_peer", "timeout", "tos"),
)
LOCAL_HEALTH = ints(
    *("fatal_error", "health value", "interrupts", "dropped", "aborted", "no route", "timeouts", "error"),
    *("ping_count", "next_ping"),
)
PEER_HEALTH = ints(
    "health value", "dropped", "timeout", "error", "network timeout", "ping_count", "next_ping"
)
NI: Layout = {
    "nid": str,
    "status": str,
    "interfaces": {int: str},
    "statistics": COUNTS,
    "sent_stats": MESSAGES,
    "received_stats": MESSAGES,
    "dropped_stats": MESSAGES,
    "health stats": LOCAL_HEALTH,
    "tunables": TUNABLES,
    "lnd tunables": LND_TUNABLES,
    "dev cpt": int,
    "CPT": str,
}
PEER_NI: Layout = {
    "nid": str,
    "state": str,
    **ints("max_ni_tx_credits", "available_tx_credits", "min_tx_credits", "tx_q_num_of_buf"),
    **ints("available_rtr_credits", "min_rtr_credits", "refcount"),
    "statistics": COUNTS,
    "sent_stats": MESSAGES,
    "received_stats": MESSAGES,
    "dropped_stats": MESSAGES,
    "health stats": PEER_HEALTH,
}
NET: Layout = {"net type": str, "local NI(s)": [NI]}
PEER: Layout = {"primary nid": str, "Multi-Rail": bool, "peer state": int, "peer ni": [PEER_NI]}
GLOBAL = ints(
    *("numa_range", "max_interfaces", "discovery", "drop_asym_route", "retry_count", "transaction_timeout"),
    *("health_sensitivity", "recovery_interval", "router_sensitivity", "lnd_timeout", "response_tracking"),
    *("recovery_limit", "max_recovery_ping_interval"),
)
STATISTICS = ints(
    *(
        "msgs_alloc",
        "msgs_max",
        "rst_alloc",
        "errors",
        "send_count",
        "resend_count",
        "response_timeout_count",
    ),
    *("local_interrupt_count", "local_dropped_count", "local_aborted_count", "local_no_route_count"),
    *("local_timeout_count", "local_error_count", "remote_dropped_count", "remote_error_count"),
    *("remote_timeout_count", "network_timeout_count", "failed_resends", "successful_resends", "recv_count"),
    *("route_count", "drop_count", "send_length", "recv_length", "route_length", "drop_length"),
)
EXPORT: Layout = {"net": [NET], "peer": [PEER], "global": GLOBAL}


def read_real(data: Any, layout: Any, where: str = "") -> None:
    """Read a document of the real layout; a level of `-v` may leave keys out, but not change their order.

    Raises:  AssertionError: a key that the real tool does not have, another order, or another type; with its place.
    """
    if isinstance(layout, list):
        assert isinstance(data, list), where
        for index, item in enumerate(data):
            read_real(item, layout[0], f"{where}[{index}]")
    elif isinstance(layout, dict):
        assert isinstance(data, dict), where
        if int in layout:
            assert all(isinstance(key, int) for key in data), where
            layout = dict.fromkeys(data, layout[int])
        assert list(data) == [key for key in layout if key in data], f"{where}: keys or their order"
        for key, value in data.items():
            read_real(value, layout[key], f"{where}.{key}")
    else:
        assert type(data) is layout or (layout is int and data is True), (
            f"{where}: {data!r} is no {layout.__name__}"
        )
