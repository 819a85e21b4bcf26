"""The Ethernet Manager: desired state in, MADs out, until every agent is as it should be.

config       what people write: fabric, virtual switches, policies
plan         the VeswPortInfo that follows from it for one vport
mac_tables   the MAC table of a virtual switch, its sections and its digest
work         which vport is served next, and how many requests may be on their way
core         the manager itself, sans-IO: MADs, timers and notices in; requests, groups and records out
election     which of several EMs is the master
store        what survives kill -9, in SQLite
shell        the asyncio shell around core, election and store, on the MAD stack of a port
"""
