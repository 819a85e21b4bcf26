"""The two datapaths: the Python one, which is the reference and runs everywhere, and the native one.

The Python datapath is `opavnic.adapter` on `hfi_sim`'s links and switches. The native one (`native/`, built as
`opavnic._native`) carries the same frames by snapshots of both, outside the GIL; `native` keeps these up to date.
"""
