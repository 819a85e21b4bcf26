"""The 16B packet on the wire: headers, padding, ICRC and tail, as values and as bytes.

`lrh16b` is the header, `l4` what follows it, `icrc` the checksum; `packet` puts them together and takes them
apart. `layers` holds the same formats as scapy layers, `describe` tells people what is in a packet. The
datapath uses the first four and nothing else.
"""
