"""A server before another one that asks for a login, as a gateway before a registry does."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import Request, urlopen


@contextmanager
def asking_proxy(
    url: str, login: str, port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Serve what ``url`` serves to those who log in as ``name:password``, or by ``Bearer token``.

    Returns its address, and the paths that were asked for.
    """
    asked: list[str] = []
    wanted = login if login.startswith("Bearer ") else f"Basic {base64.b64encode(login.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            asked.append(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            if self.headers.get("Authorization") != wanted:
                self._answer(401, b'{"error_code": 401, "message": "Unauthorized"}')
                return
            kind = {"Content-Type": self.headers.get("Content-Type") or "application/json"}
            try:
                with urlopen(Request(url + self.path, body, kind, method=self.command), timeout=60) as answer:
                    self._answer(answer.status, answer.read())
            except HTTPError as refused:
                self._answer(refused.code, refused.read())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
