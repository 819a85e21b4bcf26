"""An Ethernet Manager in 20 lines, without this project's code: who is there, and is its Ethernet link up?

opavnic up examples/two-hosts.yaml -d; python examples/mad_client.py /run/opavnic/two-hosts/mad.sock
"""

import socket
import struct
import sys

if len(sys.argv) != 2:
    sys.exit("usage: mad_client.py SOCKET; that of a lab is /run/opavnic/NAME/mad.sock")
stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    stream.connect(sys.argv[1])
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error.strerror}; is the lab running? see: opavnic ps")


def exchange(lid: int, mad: bytes) -> bytes:
    """Send one message and return the MAD of the answer."""
    stream.sendall(struct.pack(">IIHBB", 8 + len(mad), lid, 0, 0, 0) + mad)
    length = struct.unpack(">I", stream.recv(4, socket.MSG_WAITALL))[0]
    return stream.recv(length, socket.MSG_WAITALL)[8:]


for (lid,) in struct.iter_unpack(">I", exchange(0, b"")):  # no MAD: which ports have an agent?
    get = struct.pack(">BBBBIQHHI", 0x80, 0x34, 0x80, 0x01, 0, 1, 0x0011, 0, 1) + bytes(13) + b"\x00\x06\x6a"
    info = exchange(lid, get)[40:]  # VeswPortInfo of vport 1
    print(f"LID {lid}: virtual switch {info[3] | info[2] << 8}, link {['-', 'up', 'down'][info[156]]}")
