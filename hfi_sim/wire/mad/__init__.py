"""Management datagrams: header, segments of long ones, directed routes, and the attributes by number."""
