"""The Ethernet Manager: desired state in, MADs out, until every agent is as it should be.

desired      what people write: the EM file with its virtual switches and policies
plan         the VeswPortInfo that follows from it for one vport
mac_tables   the MAC table of a virtual switch, its sections and its digest
vport_queue  which vport is served next, and how many requests may be outstanding
core         the manager itself, sans-IO: MADs, timers and notices in; requests, groups and records out
election     which of several EMs is the master
persisted    the records that survive kill -9; store keeps them in SQLite, memory bridges a full disk
service      the asyncio shell around core, election and store, on the MAD stack of a port
"""
