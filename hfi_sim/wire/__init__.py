"""What is on the wire: headers, padding, ICRC and tail of a 16B packet, and the formats of management.

`field` and `header` define how a header is declared; read them first. `lrh16b` is the 16B header, `l4` the headers
behind it, `icrc` the checksum; `packet` puts them together and takes them apart. `mad`, `sma` and `sa` hold the formats
of management. `decode` explains packets to people, as text and as scapy layers; the datapath does not use it.
"""
