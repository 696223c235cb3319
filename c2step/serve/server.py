"""HTTP on the loopback: a token in the address, one host, no pickle, no file but the pages' own.

Every address begins with the token, which is new each time.  The Host header must name this server, so
that no page elsewhere can reach it under another name, and so must Origin where a browser sends one.
"""

import contextlib
import hmac
import json
import secrets
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple
from urllib.parse import parse_qsl, unquote, urlsplit

from ..errors import C2StepError, UsageError
from ..render import as_json

__all__ = ["Answer", "Server", "json_answer"]

_LARGEST_REQUEST = 1 << 16


class Answer(NamedTuple):
    """What to send: a type, the bytes, and the status."""

    type: str
    body: bytes
    status: int = 200


Handle = Callable[[str, Dict[str, str]], Optional[Answer]]


def json_answer(value: Any, status: int = 200) -> Answer:
    """A value as strict JSON."""
    return Answer("application/json", as_json(value).encode("utf-8"), status)


class Server:
    """Serves `get` and `post` (path without the token, values by name -> answer, None for unknown) until closed."""

    def __init__(self, get: Handle, post: Handle, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; UsageError where the port cannot be had."""
        self.token = secrets.token_urlsafe(24)
        self.handlers = {"GET": get, "POST": post}
        owner = self

        class Handler(_Handler):
            server_of = owner

        try:
            self._http = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise UsageError("cannot listen on %s port %d: %s" % (host, port, error.strerror or error)) from error
        self._http.daemon_threads = True
        self.host = host
        self.anywhere = host in ("", "0.0.0.0", "::")
        self.port = int(self._http.server_address[1])
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address to open: this machine's name where the server listens on every address."""
        host = socket.gethostname() if self.anywhere else self.host
        return "http://%s:%d/%s/" % (host, self.port, self.token)

    def names(self, reached: str = "") -> Tuple[str, ...]:
        """What a Host header may say; `reached` is the address at which a request came in."""
        hosts = ["127.0.0.1", "localhost"] if self.host in ("127.0.0.1", "localhost") else [self.host]
        if self.anywhere:  # by this machine's own names and the address that was asked, and by no other name
            hosts = ["127.0.0.1", "localhost", socket.gethostname(), socket.getfqdn(), reached]
        return tuple("%s:%d" % (host.lower(), self.port) for host in dict.fromkeys(hosts) if host)

    def close(self) -> None:
        """Stop listening."""
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    server_of: Server
    server_version = "c2step"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the token is in the address."""

    def do_GET(self) -> None:
        """Answer a page or a value."""
        self._answer({})

    def do_HEAD(self) -> None:
        """Answer as to GET, without the body."""
        self._answer({})

    def do_POST(self) -> None:
        """Answer an action."""
        values = self._body()
        if values is not None:
            self._answer(values)

    def _body(self) -> Optional[Dict[str, str]]:
        length = self.headers.get("Content-Length") or "0"
        if not length.isdecimal() or int(length) > _LARGEST_REQUEST:
            self._send(Answer("text/plain", b"too large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
            return None
        data = self.rfile.read(int(length))
        with contextlib.suppress(ValueError, UnicodeDecodeError):
            found = json.loads(data.decode("utf-8"))
            if isinstance(found, dict):
                return {str(key): str(value) for key, value in found.items()}
        self._send(Answer("text/plain", b"a JSON object is wanted", HTTPStatus.BAD_REQUEST))
        return None

    def _answer(self, values: Dict[str, str]) -> None:
        refused = self._refused()
        if refused:
            self._send(Answer("text/plain", refused.encode(), HTTPStatus.FORBIDDEN))
            return
        address = urlsplit(self.path)
        path = unquote(address.path)[len(self.server_of.token) + 2 :]
        values = dict(parse_qsl(address.query), **values)
        try:
            verb = "GET" if self.command == "HEAD" else self.command
            found = self.server_of.handlers[verb](path, values)
        except C2StepError as error:
            found = json_answer({"error": error.message, "hint": error.hint}, HTTPStatus.BAD_REQUEST)
        except KeyError as error:
            found = json_answer({"error": "no %s is given" % error.args[0], "hint": ""}, HTTPStatus.BAD_REQUEST)
        except ValueError as error:
            found = json_answer({"error": "%s" % error, "hint": ""}, HTTPStatus.BAD_REQUEST)
        self._send(found or Answer("text/plain", b"not here", HTTPStatus.NOT_FOUND))

    def _refused(self) -> str:
        """Why a request gets nothing, empty where it may."""
        names = self.server_of.names(str(self.connection.getsockname()[0]))
        if (self.headers.get("Host") or "").lower() not in names:
            return "another host"
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() not in ["http://" + name for name in names]:
            return "another origin"
        token = unquote(urlsplit(self.path).path).split("/")[1:2]
        if not token or not hmac.compare_digest(token[0].encode(), self.server_of.token.encode()):
            return "no such token"
        return ""

    def _send(self, answer: Answer) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(int(answer.status))
            for name, value in (
                ("Content-Type", answer.type + ("; charset=utf-8" if answer.type.startswith("text/") else "")),
                ("Content-Length", str(len(answer.body))),
                ("Cache-Control", "no-store"),
                ("Referrer-Policy", "no-referrer"),
                ("X-Content-Type-Options", "nosniff"),
                ("X-Frame-Options", "DENY"),
            ):
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
