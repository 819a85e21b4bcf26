"""Benchmarks of opavnic, its subsystems and the packages on top of it: `opavnic bench NAME`.

`commands` holds the commands, which join `opavnic bench` by the entry point group "opavnic.bench", and `turns` the
shape of every benchmark; the other modules are one benchmark each. Nothing imports this package.
"""
