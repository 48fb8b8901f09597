"""An authority of the tests that signs certificates, and a door with TLS before a server that has none."""

from __future__ import annotations

import datetime
import socket
import ssl
import struct
import threading
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


class Certificate(NamedTuple):
    """Files of a server's certificate and its key, and of the authority that has signed it."""

    authority: Path
    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return what a server of this process speaks TLS with."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.chain, self.key)
        return made


class Authority:
    """Signs certificates that nobody trusts who is not given :attr:`file`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._key = folder, generate_private_key(SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.pem"
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
             "decipher_only", "digital_signature"), False
        )  # fmt: skip
        made = (
            self._begun(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
        )
        self.file.write_bytes(made.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def _begun(self, name: x509.Name, key: Any) -> x509.CertificateBuilder:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )

    def signed(self, host: str = "127.0.0.1") -> Certificate:
        """Return a certificate for a server of this name or address."""
        key = generate_private_key(SECP256R1())
        name = x509.IPAddress(IPv4Address(host)) if host[0].isdigit() else x509.DNSName(host)
        made = (
            self._begun(x509.Name([]), key)
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
            .sign(self._key, SHA256())
        )
        found = Certificate(self.file, self._folder / f"{host}.pem", self._folder / f"{host}.key")
        found.chain.write_bytes(made.public_bytes(Encoding.PEM))
        found.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return found


class KafkaDoor:
    """A port with TLS before a broker of Kafka, which names that port as its own in all that it answers."""

    def __init__(self, certificate: Certificate, host: str, port: int) -> None:
        self._behind, self._context = (host, port), certificate.context()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def _serve(self) -> None:
        with suppress(OSError):  # the door is closed
            while True:
                found, _ = self._door.accept()
                self._threads.append(threading.Thread(target=self._pass, args=(found,)))
                self._threads[-1].start()

    def _pass(self, found: socket.socket) -> None:
        with (
            suppress(OSError),
            self._context.wrap_socket(found, server_side=True) as ours,
            socket.create_connection(self._behind) as theirs,
        ):
            back = threading.Thread(target=self._answers, args=(theirs, ours))
            back.start()
            with suppress(OSError):
                while data := ours.recv(65536):
                    theirs.sendall(data)
            theirs.shutdown(socket.SHUT_RDWR)
            back.join()

    def _answers(self, theirs: socket.socket, ours: ssl.SSLSocket) -> None:
        host, port = self._behind
        named, instead = (host.encode() + struct.pack(">i", each) for each in (port, self.port))
        with suppress(OSError), theirs.makefile("rb") as answers:
            while len(size := answers.read(4)) == 4:
                ours.sendall(size + answers.read(*struct.unpack(">i", size)).replace(named, instead))

    def close(self) -> None:
        """Close the door; connections end with their clients."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
