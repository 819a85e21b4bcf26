"""The wire structures declared once with construct, in the order of the public o2iblnd structures.

`lnet.msg` and `lnet.lnet_hdr` read and write the same bytes with `struct`; a test holds both to this page.
"""

from __future__ import annotations

from typing import Any, Final

import construct as c

_INTS: Final[dict[str, dict[str, Any]]] = {
    "<": {"u16": c.Int16ul, "u32": c.Int32ul, "u64": c.Int64ul, "s32": c.Int32sl},
    ">": {"u16": c.Int16ub, "u32": c.Int32ub, "u64": c.Int64ub, "s32": c.Int32sb},
}

LNET_HDR: Final = c.Struct(
    "dest_nid" / c.Int64ul,
    "src_nid" / c.Int64ul,
    "dest_pid" / c.Int32ul,
    "src_pid" / c.Int32ul,
    "type" / c.Int32ul,
    "payload_length" / c.Int32ul,
    "msg"
    / c.Switch(
        c.this.type,
        {
            1: c.Struct(  # PUT
                "interface_cookie" / c.Int64ul,
                "object_cookie" / c.Int64ul,
                "match_bits" / c.Int64ul,
                "hdr_data" / c.Int64ul,
                "ptl_index" / c.Int32ul,
                "offset" / c.Int32ul,
            ),
            2: c.Struct(  # GET
                "interface_cookie" / c.Int64ul,
                "object_cookie" / c.Int64ul,
                "match_bits" / c.Int64ul,
                "ptl_index" / c.Int32ul,
                "src_offset" / c.Int32ul,
                "sink_length" / c.Int32ul,
                "padding" / c.Const(bytes(4)),
            ),
        },
    ),
)
"""struct lnet_hdr: 32 bytes and a union of 40; always little-endian."""


def kib_msg(order: str) -> Any:
    """Return the layout of kib_msg for `<` or `>`."""
    n = _INTS[order]
    params = c.Struct("queue_depth" / n["u16"], "max_frags" / n["u16"], "max_msg_size" / n["u32"])
    frag = c.Struct("nob" / n["u32"], "addr" / n["u64"])
    desc = c.Struct("key" / n["u32"], "nfrags" / n["u32"], "frags" / c.Array(c.this.nfrags, frag))
    conn = c.Struct("connparams" / params, "extra" / c.GreedyBytes)
    completion = c.Struct("cookie" / n["u64"], "status" / n["s32"])
    hdr = "hdr" / c.Bytes(72)
    body = {
        0xC0: conn,
        0xC1: conn,
        0xD0: c.Pass,
        0xD1: c.Struct(hdr, "payload" / c.GreedyBytes),
        0xD2: c.Struct(hdr, "cookie" / n["u64"]),
        0xD3: completion,
        0xD4: c.Struct("cookie" / n["u64"], "dst_cookie" / n["u64"], "desc" / desc),
        0xD5: completion,
        0xD6: c.Struct(hdr, "cookie" / n["u64"], "desc" / desc),
        0xD7: completion,
    }
    return c.Struct(
        "magic" / n["u32"],
        "version" / n["u16"],
        "type" / c.Int8ub,
        "credits" / c.Int8ub,
        "nob" / n["u32"],
        "cksum" / n["u32"],
        "srcnid" / n["u64"],
        "srcstamp" / n["u64"],
        "dstnid" / n["u64"],
        "dststamp" / n["u64"],
        "body" / c.Switch(c.this.type, body),
    )


def kib_rej(order: str) -> Any:
    """Return the layout of kib_rej for `<` or `>`."""
    n = _INTS[order]
    return c.Struct(
        "magic" / n["u32"],
        "version" / n["u16"],
        "why" / c.Int8ub,
        "padding" / c.Const(b"\0"),
        "incarnation" / n["u64"],
        "connparams" / c.Struct("queue_depth" / n["u16"], "max_frags" / n["u16"], "max_msg_size" / n["u32"]),
    )
