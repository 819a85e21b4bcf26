"""Measurements: functions that measure one thing and return numbers; `opavnic bench` prints them."""
