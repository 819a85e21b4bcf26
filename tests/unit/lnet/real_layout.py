"""A reader of lnetctl's YAML as the real tool prints it: the keys in their order, and the type of each value.

It knows nothing of this project. Source: the public tables local_ni_list, lnet_peer_ni_list and their neighbours,
kiblnd_tunables_keys, lustre_lnet_show_net(), lustre_lnet_show_peer(), the order of jt_show_global() and of
lustre_lnet_show_stats().
"""

from __future__ import annotations

from typing import Any

Layout = dict[str, Any]

COUNTS: Layout = {"send_count": int, "recv_count": int, "drop_count": int}
MESSAGES: Layout = {"put": int, "get": int, "reply": int, "ack": int, "hello": int}
TUNABLES: Layout = {"peer_timeout": int, "peer_credits": int, "peer_buffer_credits": int, "credits": int}
LND_TUNABLES: Layout = {
    "peercredits_hiw": int,
    "map_on_demand": int,
    "concurrent_sends": int,
    "fmr_pool_size": int,
    "fmr_flush_trigger": int,
    "fmr_cache": int,
    "ntx": int,
    "conns_per_peer": int,
    "timeout": int,
    "tos": int,
}
LOCAL_HEALTH: Layout = {
    "fatal_error": int,
    "health value": int,
    "interrupts": int,
    "dropped": int,
    "aborted": int,
    "no route": int,
    "timeouts": int,
    "error": int,
    "ping_count": int,
    "next_ping": int,
}
PEER_HEALTH: Layout = {
    "health value": int,
    "dropped": int,
    "timeout": int,
    "error": int,
    "network timeout": int,
    "ping_count": int,
    "next_ping": int,
}
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
    "max_ni_tx_credits": int,
    "available_tx_credits": int,
    "min_tx_credits": int,
    "tx_q_num_of_buf": int,
    "available_rtr_credits": int,
    "min_rtr_credits": int,
    "refcount": int,
    "statistics": COUNTS,
    "sent_stats": MESSAGES,
    "received_stats": MESSAGES,
    "dropped_stats": MESSAGES,
    "health stats": PEER_HEALTH,
}
NET: Layout = {"net type": str, "local NI(s)": [NI]}
PEER: Layout = {"primary nid": str, "Multi-Rail": bool, "peer state": int, "peer ni": [PEER_NI]}
GLOBAL: Layout = dict.fromkeys(
    (
        "numa_range",
        "max_interfaces",
        "discovery",
        "drop_asym_route",
        "retry_count",
        "transaction_timeout",
        "health_sensitivity",
        "recovery_interval",
        "router_sensitivity",
        "lnd_timeout",
        "response_tracking",
        "recovery_limit",
        "max_recovery_ping_interval",
    ),
    int,
)
STATISTICS: Layout = dict.fromkeys(
    (
        "msgs_alloc", "msgs_max", "rst_alloc", "errors", "send_count", "resend_count", "response_timeout_count",
        "local_interrupt_count", "local_dropped_count", "local_aborted_count", "local_no_route_count",
        "local_timeout_count", "local_error_count", "remote_dropped_count", "remote_error_count",
        "remote_timeout_count", "network_timeout_count", "failed_resends", "successful_resends", "recv_count",
        "route_count", "drop_count", "send_length", "recv_length", "route_length", "drop_length",
    ),
    int,
)  # fmt: skip
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
