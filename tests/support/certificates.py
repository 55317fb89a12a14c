"""TLS certificates for tests, made when they are needed."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "self_signed"]


def self_signed(
    directory: Path, *, days: int = 30, address: str = "127.0.0.1"
) -> tuple[Path, ssl.SSLContext]:
    """A certificate that is its own authority, as a file, and a server's context with it.

    It is valid until so many days from now, which may be over, and for one address.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = directory / "certificate.pem", directory / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(public, private)
    return public, context


_SIGNS_OTHERS = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A small authority: ``file`` is its own certificate, for clients that trust it."""

    def __init__(self, directory: Path, issuer: Authority | None = None) -> None:
        """With ``issuer``, it has that one's signature, but not the right to sign."""
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"CA in {directory.name}")])
        self._certificate = self._sign(self._name, self._key, issuer or self, ca=issuer is None)
        self._chain = [] if issuer is None else [self._certificate]
        self.file = directory / "authority.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def another(self) -> Authority:
        """A certificate of the same name, with another key, that no one trusts."""
        return Authority(_subfolder(self._directory, "another"))

    def leaf_as_authority(self) -> Authority:
        """A certificate that this authority signed for a server, and that signs others."""
        return Authority(_subfolder(self._directory, "leaf"), self)

    def server_context(
        self,
        *,
        days: int = 30,
        begins: int = -60,
        address: str | None = "127.0.0.1",
        for_clients: bool = False,
    ) -> ssl.SSLContext:
        """A server's context. Its certificate is valid from ``begins`` days from now until
        ``days`` days from now, for ``address``."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        certificate = self._sign(
            name,
            key,
            self,
            days=max(days, begins + 1) if begins > 0 else days,
            begins=begins,
            address=address,
            for_clients=for_clients,
        )
        return _context(self._directory, [certificate, *self._chain], key)

    def own_context(self) -> ssl.SSLContext:
        """A server's context with the certificate of the authority itself."""
        return _context(self._directory, [self._certificate], self._key)

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        issuer: Authority,
        *,
        days: int = 30,
        begins: int = -60,
        address: str | None = "127.0.0.1",
        for_clients: bool = False,
        ca: bool = False,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if for_clients else ExtendedKeyUsageOID.SERVER_AUTH
        alternative: x509.GeneralName = (
            x509.DNSName("elsewhere.example")
            if address is None
            else x509.IPAddress(ip_address(address))
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=begins))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        # Python 3.13 refuses certificates without what RFC 5280 requires of them.
        identifiers = (
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer._key.public_key()),
        )
        for identifier in identifiers:
            builder = builder.add_extension(identifier, critical=False)
        if ca:
            builder = builder.add_extension(_SIGNS_OTHERS, critical=True)
        else:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        return builder.sign(issuer._key, hashes.SHA256())


def _subfolder(directory: Path, name: str) -> Path:
    (directory / name).mkdir()
    return directory / name


def _context(
    directory: Path, chain: list[x509.Certificate], key: ec.EllipticCurvePrivateKey
) -> ssl.SSLContext:
    public, private = directory / "chain.pem", directory / "chain-key.pem"
    pem = serialization.Encoding.PEM
    public.write_bytes(b"".join(each.public_bytes(pem) for each in chain))
    private.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(public, private)
    return context
