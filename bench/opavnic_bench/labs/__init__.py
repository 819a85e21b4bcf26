"""Labs as programs: how long they take to start, to answer and to end, by their number of hosts."""
