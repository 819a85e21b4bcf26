"""Management datagrams (MADs): their header here, the stack and its transactions beside it."""
