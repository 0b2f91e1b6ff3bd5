"""Readiness is asked for, never slept for.

A check returns None when the thing is well, else a few words on what is wrong. The pause between two
questions is short, so that waiting costs no time of note.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PAUSE = 0.05


class NotReadyError(RuntimeError):
    """Something did not become well in its time, or ended meanwhile."""


def wait(what: str, check: Callable[[], str | None], *, seconds: float) -> None:
    """Ask until the check is content; NotReadyError, with its last words, after so many seconds."""
    deadline = time.monotonic() + seconds
    while (trouble := check()) is not None:
        if time.monotonic() > deadline:
            raise NotReadyError(f"{what} is not ready after {seconds:.0f} s: {trouble}")
        time.sleep(_PAUSE)


def http(url: str, *, context: ssl.SSLContext | None = None, seconds: float = 2.0) -> str | None:
    """Check that a GET is answered with 200."""
    try:
        status, _ = _get(url, context=context, seconds=seconds)
    except (OSError, HTTPException) as error:
        return str(error) or type(error).__name__
    return None if status == HTTPStatus.OK else f"HTTP {status}"


def http_json(url: str, *, context: ssl.SSLContext, seconds: float = 5.0) -> dict[str, Any]:
    """Read an object of the API server; OSError when it has none for us."""
    status, body = _get(url, context=context, seconds=seconds)
    if status != HTTPStatus.OK:
        raise OSError(f"HTTP {status}")
    read: dict[str, Any] = json.loads(body)
    return read


def _get(url: str, *, context: ssl.SSLContext | None, seconds: float) -> tuple[int, bytes]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = (
        HTTPSConnection(host, port, timeout=seconds, context=context)
        if parts.scheme == "https"
        else HTTPConnection(host, port, timeout=seconds)
    )
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def unix_http(path: Path, request_path: str, *, seconds: float = 2.0) -> str | None:
    """Check that a GET over a unix socket is answered with 200."""
    request = f"GET {request_path} HTTP/1.0\r\nHost: localhost\r\n\r\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(str(path))
            connection.sendall(request.encode())
            first = connection.recv(64).decode(errors="replace").split("\r\n", 1)[0]
    except OSError as error:
        return str(error)
    return None if " 200 " in f"{first} " else first or "closed without an answer"


def unix_connect(path: Path, *, seconds: float = 2.0) -> str | None:
    """Check that something listens on a unix socket."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(str(path))
    except OSError as error:
        return str(error)
    return None


def tls(*, authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """Make the context of a client with a certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(certificate, key)
    return context


def unverified() -> ssl.SSLContext:
    """Make the context for a health page behind a certificate that the server signed itself."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
