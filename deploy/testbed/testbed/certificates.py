"""The keys of one test bed: an authority, who may do what, and the service accounts' key."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LIFE = dt.timedelta(days=365)

CONTEXT = "sandkeeper-testbed"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Identity:
    """What a certificate says about who holds it, and where it may serve."""

    user: str
    groups: Sequence[str] = ()
    hosts: Sequence[str] = ()


class Authority:
    """An authority that signs all certificates of one test bed; it is made when first used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.pair = Pair(folder / "ca.crt", folder / "ca.key")
        if not self.pair.certificate.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._make()

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sandkeeper-testbed")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        built = (
            _builder(name, issuer=name, key=key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(key, self.pair.key)
        self.pair.certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, identity: Identity) -> Pair:
        """Make a certificate for a client, or for a server if it names hosts; once."""
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        if pair.certificate.exists():
            return pair
        authority = x509.load_pem_x509_certificate(self.pair.certificate.read_bytes())
        signer = serialization.load_pem_private_key(self.pair.key.read_bytes(), password=None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise TypeError("the authority's key is not one of ours")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in identity.groups),
                x509.NameAttribute(NameOID.COMMON_NAME, identity.user),
            ],
        )
        serving = [ExtendedKeyUsageOID.SERVER_AUTH] if identity.hosts else []
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *serving]
        builder = (
            _builder(subject, issuer=authority.subject, key=key)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
                critical=False,
            )
        )
        if identity.hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in identity.hosts])
            builder = builder.add_extension(names, critical=False)
        _write(key, pair.key)
        pair.certificate.write_bytes(
            builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        )
        return pair


def service_account_keys(folder: Path) -> Pair:
    """Make the key pair that service accounts' tokens are signed with; once."""
    pair = Pair(folder / "service-accounts.pub", folder / "service-accounts.key")
    if not pair.certificate.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        _write(key, pair.key)
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM,
            serialization.PublicFormat.SubjectPublicKeyInfo,
        )
        pair.certificate.write_bytes(public)
    return pair


def kubeconfig(*, server: str, authority: Authority, client: Pair, user: str) -> str:
    """Write out a kubeconfig with everything in it; JSON is YAML."""

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": inline(authority.pair.certificate),
                },
            },
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": inline(client.certificate),
                    "client-key-data": inline(client.key),
                },
            },
        ],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": user}}],
    }
    return json.dumps(config, indent=1) + "\n"


def _builder(
    subject: x509.Name,
    *,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A clock that tests turn back a little must not make it invalid.
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + _LIFE)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(key: ec.EllipticCurvePrivateKey, path: Path) -> None:
    # Created with its mode, so that at no moment another user can read it.
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
