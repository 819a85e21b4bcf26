"""The lab file: read, checked, and its model. Needs no privilege."""
