"""A file `opavnic` for scripts, and for programs on hosts: a command that it runs is forked as those of `program` are.

Such a command has the namespaces, files, directory, environment and signals of the one who calls it. What calls it
waits in its place, and passes signals on.
"""

from __future__ import annotations

import atexit
import functools
import marshal
import os
import shutil
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

from program import LARGEST, ask, peer

_CLIENT: Final = """#!{python} -ISE
import _signal, _socket, marshal, posix, sys
ignored = [n for n in (1, 2, 3, 15) if _signal.getsignal(n) == _signal.SIG_IGN]
to = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
to.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, {largest})
to.connect({place!r})
files = b"".join(n.to_bytes(4, sys.byteorder) for n in range(3))
what = sys.argv[1:], posix.getcwd(), posix.environ, ignored
to.sendmsg([marshal.dumps(what)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
for n in {{1, 2, 3, 10, 12, 15, 28}} - set(ignored):
    _signal.signal(n, lambda n, _: to.send(bytes([n])))
to.recv(99)
code = int(to.recv(99) or 1)
if code < 0:
    _signal.signal(-code, 0)
    posix.kill(posix.getpid(), -code)
posix._exit(code)
"""


@functools.cache
def command_file() -> Path:
    """Return the file; its directory, in which nothing else is, belongs on the PATH of scripts."""
    directory = Path(tempfile.mkdtemp(prefix="opavnic-tests-"))
    atexit.register(shutil.rmtree, directory)
    place = directory / "requests"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(str(place))
    listening.listen(100)
    threading.Thread(target=_pass_on, args=(listening,), daemon=True).start()
    file = directory / "opavnic"
    file.write_text(_CLIENT.format(python=sys.executable, largest=LARGEST, place=str(place)))
    file.chmod(0o755)
    return file


def _pass_on(listening: socket.socket) -> None:
    """Let each command that is asked for be forked, until these tests have ended."""
    while True:
        caller = listening.accept()[0]
        asked, files, _, _ = socket.recv_fds(caller, LARGEST, 3)
        if asked:
            words, directory, environment, ignored = marshal.loads(asked)  # noqa: S302 - of this test's own program
            request = {
                "words": words,
                "directory": directory,
                "environment": {os.fsdecode(key): os.fsdecode(value) for key, value in environment.items()},
                "ignored": ignored,
                "caller": peer(caller)[0],
            }
            ask(request, [*files, caller.fileno()])
        for fd in files:
            os.close(fd)
        caller.close()
