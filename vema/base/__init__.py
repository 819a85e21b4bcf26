"""Errors of vema, numbers that manager and agents share, types of sections, MAC addresses made from LIDs."""
