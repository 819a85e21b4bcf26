"""Credentials of a fabric: its own CA, a certificate for each node, and the list of members.

DIR/ca.pem, ca.key        the CA; its key stays where it was made
DIR/NAME/ca.pem           a node's folder, which is copied to its machine: the CA's certificate,
DIR/NAME/node.pem         the node's certificate, whose common name is the node's name,
DIR/NAME/node.key         the node's key, readable by its user only,
DIR/NAME/members.json     and the names of all nodes, from which its access control is made
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opavnic.base.files import FileError, read_bytes, read_text
from opavnic.base.packages import advice
from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.protocol.membership import NodeName, node_name
from opavnic.cluster.protocol.zenoh_config import MAX_MEMBERS, Credentials

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

NODE_DAYS: Final = 365
CA_DAYS: Final = 3650
_MAX_FILE: Final = 1 << 20
_BACKDATED: Final = timedelta(days=1)
"""Clocks of machines differ, so a certificate is valid from a day before it was made."""
_FOLDER: Final = ("ca.pem", "node.pem", "node.key", "members.json")


def make_authority(
    directory: Path, names: Sequence[str], *, coordinators: Sequence[str] = (), days: int = NODE_DAYS
) -> dict[NodeName, bool]:
    """Make a CA and certificates for nodes, or certificates for more nodes from an existing CA.

    Returns: all nodes of the CA, and whether the certificate of each is new.
    Args:    names: the nodes; a node that has a certificate keeps it. coordinators: the only nodes that may be
             coordinator; empty: unchanged, and any node at first.
    Raises:  ClusterInputError: an invalid node name, or a folder that is not a CA's. ClusterError: a file cannot be
             written, or `cryptography` is not installed.
    """
    wanted = [node_name(name) for name in (*coordinators, *names)]
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        ca, ca_key = _authority(directory)
        members, before = _listed(directory)
        members += [name for name in dict.fromkeys(wanted) if name not in members]
        if not members:
            raise ClusterInputError("no node is named: say --node NAME for each")
        if len(members) > MAX_MEMBERS:
            raise ClusterInputError(f"{len(members)} nodes; a CA serves {MAX_MEMBERS}")
        made = [name for name in members if not (directory / name / "node.pem").exists()]
        for name in made:
            _make_node(directory / name, name, ca, ca_key, days)
        listed = {"members": members, "coordinators": [node_name(name) for name in coordinators] or before}
        for place in (directory, *(directory / name for name in members)):
            _write(place / "members.json", json.dumps(listed, indent=2).encode() + b"\n", 0o644)
    except OSError as error:
        raise ClusterError(f"{error.filename}: {error.strerror}") from None
    return {name: name in made for name in members}


def load_credentials(folder: Path) -> Credentials:
    """Read a node's folder.

    Raises:  ClusterInputError: a file is missing, the key is readable by others, or the certificate has expired or
             was not made by the CA in the folder. ClusterError: `cryptography` is not installed.
    """
    from_cryptography = _cryptography()
    for name in _FOLDER:
        if not (folder / name).is_file():
            raise ClusterInputError(
                f"{folder}: no {name}: the folder of a node has {', '.join(_FOLDER)}; `opavnic cluster ca` makes it"
            )
    key_path = folder / "node.key"
    mode = stat.S_IMODE(key_path.stat().st_mode)
    if mode & 0o077:
        raise ClusterInputError(f"{key_path}: mode {mode:04o} lets others read the key: chmod 600 {key_path}")
    certificate, ca = _certificate(folder / "node.pem"), _certificate(folder / "ca.pem")
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, from_cryptography.InvalidSignature):
        raise ClusterInputError(f"{folder / 'node.pem'}: not made by the CA in {folder / 'ca.pem'}") from None
    now = datetime.now(UTC)
    for path, one in ((folder / "node.pem", certificate), (folder / "ca.pem", ca)):
        if not one.not_valid_before_utc <= now <= one.not_valid_after_utc:
            raise ClusterInputError(
                f"{path}: valid from {one.not_valid_before_utc:%Y-%m-%d} to {one.not_valid_after_utc:%Y-%m-%d}: make "
                "a new one, or set the clock"
            )
    name = _common_name(folder / "node.pem", certificate)
    members, coordinators = _listed(folder)
    if name not in members:
        raise ClusterInputError(
            f"{folder / 'members.json'}: does not list {name}, whose certificate is beside it"
        )
    return Credentials(
        str(folder / "ca.pem"),
        str(folder / "node.pem"),
        str(key_path),
        name,
        tuple(members),
        tuple(coordinators),
    )


def name_in(der: bytes) -> str:
    """Return the common name of a certificate that a handshake has checked; empty: it has none, or several."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    names = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def _authority(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    _cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    certificate_path, key_path = directory / "ca.pem", directory / "ca.key"
    if certificate_path.exists() and key_path.exists():
        try:
            key = serialization.load_pem_private_key(_read(key_path), None)
        except (ValueError, TypeError):
            raise ClusterInputError(f"{key_path}: not a private key in PEM without a password") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ClusterInputError(f"{key_path}: not a key that `opavnic cluster ca` made")
        return _certificate(certificate_path), key
    if any(directory.iterdir()):
        raise ClusterInputError(f"{directory}: neither empty nor the folder of a CA (ca.pem and ca.key)")
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _issue("opavnic test CA", key, None, key, CA_DAYS)
    _write_key(key_path, key)
    _write(certificate_path, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return certificate, key


def _make_node(
    folder: Path, name: NodeName, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, days: int
) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder.mkdir(mode=0o700, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / "node.key", key)
    _write(folder / "ca.pem", ca.public_bytes(serialization.Encoding.PEM), 0o644)
    issued = _issue(name, key, ca, ca_key, days)
    _write(folder / "node.pem", issued.public_bytes(serialization.Encoding.PEM), 0o644)


def _issue(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate | None,
    ca_key: ec.EllipticCurvePrivateKey,
    days: int,
) -> x509.Certificate:
    """Return a new certificate, self-signed where there is no CA certificate yet."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if ca is None else ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(
            x509.BasicConstraints(ca=ca is None, path_length=0 if ca is None else None), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    if ca is None:
        usage = {"key_cert_sign": True, "crl_sign": True}
    else:
        usage = {"digital_signature": True}
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        builder = builder.add_extension(
            # TLS requires the form of a host name; nothing here checks it
            x509.SubjectAlternativeName([x509.DNSName(name.replace("_", "-"))]),
            critical=False,
        )
    flags = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    key_usage = x509.KeyUsage(**{flag: usage.get(flag, False) for flag in flags})
    return builder.add_extension(key_usage, critical=True).sign(ca_key, hashes.SHA256())


def _certificate(path: Path) -> x509.Certificate:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError:
        raise ClusterInputError(f"{path}: not a certificate in PEM") from None


def _common_name(path: Path, certificate: x509.Certificate) -> NodeName:
    from cryptography.x509.oid import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1:
        raise ClusterInputError(f"{path}: {len(names)} common names; the one of a node is right")
    return node_name(str(names[0].value))


def _listed(folder: Path) -> tuple[list[NodeName], list[NodeName]]:
    path = folder / "members.json"
    if not path.exists():
        return [], []
    try:
        listed: Any = json.loads(read_text(path, _MAX_FILE, "list of members"))
        return [node_name(one) for one in listed["members"]], [
            node_name(one) for one in listed["coordinators"]
        ]
    except FileError as error:
        raise ClusterInputError(str(error)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ClusterInputError(f'{path}: not {{"members": [NAME, ...], "coordinators": [...]}}') from None


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, _MAX_FILE, "PEM file")
    except FileError as error:
        raise ClusterInputError(str(error)) from None


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    _write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file atomically, with its mode set from the first byte."""
    beside = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as stream:
        stream.write(data)
        os.fchmod(descriptor, mode)
    beside.replace(path)


def _cryptography() -> Any:
    try:
        from cryptography import exceptions
    except ImportError:
        raise ClusterError(f"certificates need cryptography: {advice('cluster')}") from None
    return exceptions
