"""Turns of several peers, and where they run: labs, sites, machines."""
