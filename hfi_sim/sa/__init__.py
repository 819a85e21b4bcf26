"""Subnet administration (SA): what a subnet manager tells about its fabric, and what may be asked of it there.

The messages and records, for who asks and for who answers. All big-endian.
"""
