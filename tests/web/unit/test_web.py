"""One server: its ports, who may ask, its limits, the shell of pages, and its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from semel.errors import ConfigError
from semel.sandbox.security import Secured
from semel.security import Tls
from semel.web.access import Access, Login
from semel.web.answers import failed, json_answer, read_body
from semel.web.app import make_app
from semel.web.basic_header import basic_header
from semel.web.basic_login import BasicLogin
from semel.web.listener import Listener, http_address
from semel.web.page import Page, files_route
from semel.web.server import Server
from semel.wire.security import server_context, tls_context

HERE = Listener("127.0.0.1", 0)
PAGE = Page("Mirror", "    <p>{as it is}</p>\n", "mirror.js")


async def _root(_: Request) -> Response:
    return json_answer(200, {"name": "à"})


async def _length(request: Request) -> Response:
    body = await read_body(request)
    return failed(413, "too long") if body is None else json_answer(200, len(body))


ROUTES = [
    Route("/", PAGE.or_else(_root), methods=["GET"]),
    Route("/length", _length, methods=["POST"]),
    files_route("semel.connect", "page"),
]


async def _only_ada(request: Request) -> Response | None:
    return None if request.headers.get("authorization") == "Ada" else failed(401, "Who are you?")


@contextmanager
def serving(origins: tuple[str, ...] = (), login: Login | None = None) -> Iterator[Server]:
    server = Server("web", [HERE])
    server.listen()
    server.serve(make_app(ROUTES, Access(frozenset({"localhost"}), origins, login)))
    try:
        yield server
    finally:
        server.close()


def ask(server: Server, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(urlsplit(server.addresses[0]).netloc, timeout=30)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_answers_and_errors_are_json() -> None:
    with serving() as server:
        answer, body = ask(server, "GET", "/")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
        assert body == '{"name":"à"}'.encode()
        for method, path, status, words in (
            ("GET", "/none", 404, "Not Found"),
            ("PUT", "/", 405, "Method Not Allowed"),
        ):
            answer, body = ask(server, method, path)
            assert answer.status == status
            assert json.loads(body) == {"error_code": status, "message": f"HTTP {status} {words}"}


def test_a_path_with_a_slash_at_its_end_is_the_path_without() -> None:
    with serving() as server:
        assert ask(server, "POST", "/length/", b"four")[1] == b"4"


def test_a_body_that_is_too_long_is_refused() -> None:
    with serving() as server:
        assert ask(server, "POST", "/length", bytes(16 << 20))[1] == str(16 << 20).encode()
        assert ask(server, "POST", "/length", bytes((16 << 20) + 1))[0].status == 413


def test_the_page_is_for_browsers() -> None:
    with serving() as server:
        answer, body = ask(server, "GET", "/", Accept="text/html,*/*;q=0.8")
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert answer.headers["Vary"] == "Accept"
        assert body.decode() == PAGE.html
    for part in ("<title>Mirror</title>", PAGE.body, 'src="web/mirror.js"', 'href="web/style.css"'):
        assert part in PAGE.html


def test_files_are_those_of_all_pages_and_those_of_the_product() -> None:
    with serving() as server:
        for name, kind in (
            ("style.css", "text/css"),
            ("element.js", "text/javascript"),
            ("form.js", "text/javascript"),
        ):
            answer, body = ask(server, "GET", f"/web/{name}")
            assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, kind)
            assert body
        for outside in ("/web/../server.py", "/web/%2e%2e/server.py"):
            assert ask(server, "GET", outside)[0].status == 404


def test_pages_elsewhere_may_not_ask() -> None:
    with serving(("https://ui.example",)) as server:
        own = server.addresses[0]
        assert ask(server, "GET", "/", Host="evil.example")[0].status == 403
        assert ask(server, "GET", "/", Origin="https://evil.example")[0].status == 403
        assert ask(server, "POST", "/length", Sec_Fetch_Site="cross-site")[0].status == 403
        assert ask(server, "GET", "/", Sec_Fetch_Site="cross-site")[0].status == 200, "a link to the page"
        for allowed in (
            {"Host": "localhost"},
            {"Host": "127.0.0.1"},
            {"Origin": own},
            {"Origin": "https://ui.example"},
        ):
            assert ask(server, "GET", "/", b"", **allowed)[0].status == 200
        answer, _ = ask(server, "GET", "/", Origin="https://ui.example")
        assert answer.headers["Access-Control-Allow-Origin"] == "https://ui.example"


def test_a_login_is_asked_for_everything_and_after_the_sites() -> None:
    with serving(login=_only_ada) as server:
        for path in ("/", "/web/style.css", "/none"):
            assert ask(server, "GET", path)[0].status == 401
        assert ask(server, "GET", "/", Authorization="Ada")[0].status == 200
        assert ask(server, "GET", "/", Authorization="Ada", Origin="https://evil.example")[0].status == 403


def test_names_of_a_server() -> None:
    access = Access.of([Listener("Worker.Example", 1), Listener("", 2)], "Seen.Example", origins=("*",))
    assert access.hosts >= {"localhost", "worker.example", "seen.example"}
    assert "" not in access.hosts
    assert access.origins == ("*",)


def test_a_port_that_is_taken_is_an_error() -> None:
    with serving() as server:
        port = urlsplit(server.addresses[0]).port or 0
        with pytest.raises(ConfigError, match=f"http://127.0.0.1:{port} cannot be listened on") as refused:
            Server("second", [Listener("127.0.0.1", port)]).listen()
        assert refused.value.tag == "LISTENER"
    Listener("127.0.0.1", port).listen().close()


def test_a_login_by_user_and_password() -> None:
    wrong: list[dict[str, str]] = [
        {},
        {"Authorization": "Basic x"},
        {"Authorization": basic_header("ada", "b")},
        {"Authorization": "Bearer b"},
    ]
    with serving(login=BasicLogin({"ada": "l:ö", "bob": "b"}, "here")) as server:
        for headers in wrong:
            answer, body = ask(server, "GET", "/", b"", **headers)
            assert (answer.status, json.loads(body)["message"]) == (401, "User cannot access the resource.")
            assert answer.headers["WWW-Authenticate"] == 'Basic realm="here", charset="UTF-8"'
        for user, password in (("ada", "l:ö"), ("bob", "b")):
            assert ask(server, "GET", "/", Authorization=basic_header(user, password))[0].status == 200


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_https_beside_http(tmp_path: Path, client_auth: str) -> None:
    secured = Secured.make(tmp_path, {})
    tls = Tls(truststore_location=str(secured.truststore), keystore_location=str(tmp_path / "127.0.0.1.pem"))
    server = Server("web", [Listener("127.0.0.1", 0, tls=True), HERE], server_context(tls, client_auth))
    server.listen()
    server.serve(make_app(ROUTES, Access(frozenset({"localhost"}))))
    try:
        safe, plain = server.addresses
        assert (safe.partition(":")[0], plain.partition(":")[0]) == ("https", "http")
        assert server.url("seen:0", "https") == safe.replace("127.0.0.1", "seen")
        assert server.url("seen:0") == plain.replace("127.0.0.1", "seen")
        for address, context in ((plain, None), (safe, tls_context(tls))):
            with urlopen(address, context=context) as answer:
                assert json.load(answer) == {"name": "à"}
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urlopen(safe)
        without = tls_context(Tls(truststore_location=str(secured.truststore)))
        if client_auth == "required":
            with pytest.raises(OSError, match=r"(?i)certificate required|reset|EOF|closed connection"):
                urlopen(safe, context=without)
        else:
            with urlopen(safe, context=without) as answer:
                assert answer.status == 200
    finally:
        server.close()


def test_addresses() -> None:
    assert http_address("::1", 80) == "http://[::1]:80"
    with serving() as server:
        port = urlsplit(server.addresses[0]).port
        assert server.url("worker.example:0") == f"http://worker.example:{port}"
        assert server.url("::1:8083") == "http://[::1]:8083"
    silent = Server("silent", [])
    silent.listen()
    silent.serve(make_app(ROUTES, Access(frozenset())))
    assert (silent.url("worker.example:0"), silent.addresses) == ("", [])
    silent.close()
