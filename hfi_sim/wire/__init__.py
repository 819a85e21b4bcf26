"""The 16B packet on the wire: headers, padding, ICRC and tail, as values and as bytes.

`field` and `header` define how a header is declared; read them first. `lrh16b` is the 16B header, `l4` the headers
behind it, `icrc` the checksum; `packet` puts them together and takes them apart. `layers` holds the same formats as
scapy layers, and `describe` explains a packet to people; the datapath uses neither.
"""
