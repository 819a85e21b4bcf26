"""The attributes of the EMA class: one frozen value per attribute, declared field by field. All big-endian.

The annotations of a dataclass are the declaration; see `hfi_sim.wire.header`. The tables of
docs/reference/ema-attributes.md and the rows of the Wireshark dissector are generated from it. Reserved bytes are part
of the value: a parsed attribute is built again byte for byte. The exception is counters, whose reserved bytes are
always zero.
"""
