"""The client of ``fork_server``. Spark starts it as its Python; it makes the server fork a process, and lives as long
as that process.

It runs by its path and without ``site``, since it must start in milliseconds. So it imports nothing of semel, and only
the C part of ``socket``: the Python part takes as long to import as Python to start.
"""

import _socket
import marshal
import os
import struct
import sys

#: Bytes of the length before the body.
HEAD = 4
#: The variable that names the process that Spark has started, for the forked process and its children.
STARTED_AS = "SEMEL_STARTED_AS"


def _main(address: str, arguments: list[str]) -> None:
    if arguments[:1] != ["-m"]:
        os.execv(sys.executable, [sys.executable, *arguments])
    body = marshal.dumps((arguments, {**os.environ, STARTED_AS: str(os.getpid())}))
    handles = struct.pack("4i", 0, 1, 2, os.open(".", os.O_RDONLY))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(address)
    connection.sendmsg([len(body).to_bytes(HEAD)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, handles)])
    while body:
        body = body[connection.send(body) :]
    connection.recv(1)  # no byte comes: it returns when the process has ended


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
