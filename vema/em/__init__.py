"""The Ethernet Manager: takes a desired state and sends MADs until every agent matches it.

desired      the EM file, with its virtual switches and policies
plan         the resulting VeswPortInfo of each vport
mac_tables   the MAC table of a virtual switch, its sections and its digest
vport_queue  which vport is served next, and how many requests may be outstanding
core         the manager itself, sans-IO: MADs, timers and notices in; requests, groups and records out
election     which of several EMs is the master
persisted    the records that survive kill -9; store keeps them in SQLite, memory bridges a full disk
service      the asyncio shell around core, election and store, on the MAD stack of a port
"""
