"""The self-signed certificate the sites speak TLS with; made once per state folder."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from infra.reference.failure import ReferenceFailure

LIFETIME = timedelta(days=30)


class Certificate(NamedTuple):
    """Paths of a PEM certificate and of its private key."""

    certificate: Path
    key: Path


def make_certificate(state: Path, hosts: Iterable[str]) -> Certificate:
    """Write a fresh certificate for the hosts and their subdomains into ``state``.

    Both files are readable by their owner only.

    Raises:
        ReferenceFailure: the folder can't be written.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bv3 reference sites")])
    names = [x509.DNSName(entry) for host in sorted(set(hosts)) for entry in (host, f"*.{host}")]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        state.mkdir(parents=True, exist_ok=True)
        return Certificate(
            certificate=_write(state / "sites.crt", certificate.public_bytes(serialization.Encoding.PEM)),
            key=_write(state / "sites.key", secret),
        )
    except OSError as error:
        hint = "choose a folder that this user can write"
        raise ReferenceFailure(f"can't write the certificate: {error}", hint=hint) from error


def _write(path: Path, content: bytes) -> Path:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return path
