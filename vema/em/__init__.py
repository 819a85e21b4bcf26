"""The Ethernet Manager: takes a desired state and sends MADs until every agent matches it.

desired  the EM file with its virtual switches and policies, and what follows from it: plans, MAC tables, election
store    the records that survive kill -9, in SQLite; in memory while a disk is full
core     the manager itself, sans-IO: MADs, timers and notices in; requests, groups and records out
service  the asyncio shell around the others, on the MAD stack of a port
"""
