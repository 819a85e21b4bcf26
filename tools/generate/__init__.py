"""What is made from declarations and checked in: tables of docs/, parts of the Lua dissectors,
and constants of native/.

`make generated` writes it; `make lint` fails where a file is not what its declarations make. An output is a function
that yields paths and texts; `__main__` lists them.
"""
