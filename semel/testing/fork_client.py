"""The other half of ``fork_server``: started by Spark as its Python, it has the server fork a process, and lives as long as that does.

Run by its path and without ``site``, since it must start in milliseconds: it imports little, and nothing of semel.
"""

import marshal
import os
import socket
import sys

#: Bytes that say how many follow.
HEAD = 4
#: The variable that tells what was forked, and what it forks, which process Spark has started for it.
STARTED_AS = "SEMEL_STARTED_AS"


def _main(address: str, arguments: list[str]) -> None:
    if arguments[:1] != ["-m"]:
        os.execv(sys.executable, [sys.executable, *arguments])
    body = marshal.dumps((arguments, {**os.environ, STARTED_AS: str(os.getpid())}))
    directory = os.open(".", os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [len(body).to_bytes(HEAD)], [0, 1, 2, directory])
        connection.sendall(body)
        connection.recv(1)  # nothing comes: it returns when the process has ended


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
