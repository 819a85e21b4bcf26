"""What carries the packets of a lab: all in Python, which is the reference and runs everywhere, or all in Rust.

With the Python datapath, `opavnic.vnic.adapter` stands on an engine that the event loop drives. With the native one
(`native/`, built as `opavnic._native`), a thread drives the native engine, and VNICs stand on it outside the GIL;
`native` keeps their configuration up to date.
"""
