"""The attributes of the EMA class: one frozen value per attribute, and its layout beside it. All big-endian.

Each module holds a construct declaration, in document order, and a dataclass with `parse` and `build`. The
codec is a precompiled struct; a test holds it equal to the declaration. Reserved bytes are part of the value:
what was parsed is built again byte by byte.
"""
