"""A lab over several machines, beside the same lab on one and beside VXLAN."""
