"""The API server behind a proxy: where it is, and what the proxy proves itself with."""

from __future__ import annotations

import base64
import ssl
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Upstream", "kubeconfig_of", "read_kubeconfig"]


@dataclass(frozen=True)
class Upstream:
    """Where the API server is, and what the proxy proves itself with."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    anonymous: ssl.SSLContext | None
    token: str | None


def read_kubeconfig(path: Path) -> Upstream:
    """Read where the API server of a kubeconfig is."""
    read = yaml.safe_load(path.read_text(encoding="utf-8"))

    def named(kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(one[kind] for one in read[f"{kind}s"] if one["name"] == name)
        return found

    context = named("context", read["current-context"])
    cluster, user = named("cluster", context["cluster"]), named("user", context["user"])
    address = urlsplit(cluster["server"])
    tls = address.scheme == "https"
    return Upstream(
        host=address.hostname or "127.0.0.1",
        port=address.port or (443 if tls else 80),
        tls=_tls(path, cluster, user) if tls else None,
        anonymous=_tls(path, cluster, {}) if tls else None,
        token=user.get("token"),
    )


def _tls(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _content(path, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = _content(path, user, "client-certificate"), _content(path, user, "client-key")
    if certificate and key:
        # The library reads them from a file only.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _content(path: Path, entry: dict[str, Any], name: str) -> bytes | None:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    return (path.parent / entry[name]).read_bytes() if name in entry else None


def kubeconfig_of(url: str, token: str | None = None, *, namespace: str = "default") -> str:
    """Write a kubeconfig for whoever is to come by way of an address."""
    name = "sandkeeper-test"
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": url}}],
            "users": [{"name": name, "user": {} if token is None else {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        }
    )
