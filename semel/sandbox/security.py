"""Listeners with TLS, SASL and ACLs beside the plain one, to test secured clusters.

The plain listener stays for the brokers themselves and for administrators (``User:ANONYMOUS`` may do everything). On
the others, a user without a right may do nothing. ``trustme``, of the extra ``testing``, makes the certificates. They
are worth nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.extras import needs_extras

if TYPE_CHECKING:
    import trustme

__all__ = ["LISTENERS", "Secured"]

#: The security protocols, each with its own listener. The one with TLS alone requires client certificates.
LISTENERS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MODULE: Final = "org.apache.kafka.common.security."


@dataclass(frozen=True)
class Secured:
    """A secured cluster: a certificate authority, whose files are in ``directory``, and users of the mechanism PLAIN
    with their passwords.

    Users of SCRAM are made as on any cluster, once it runs. Tokens are accepted unsigned. A login is valid for
    ``reauthenticate_ms``, or until its connection ends.
    """

    directory: Path
    users: Mapping[str, str]
    authority: trustme.CA
    reauthenticate_ms: int = 0

    @classmethod
    def make(cls, directory: Path, users: Mapping[str, str], *, reauthenticate_ms: int = 0) -> Secured:
        """Make it with a new authority. Raise :class:`ConfigError` if ``trustme`` is not installed."""
        with needs_extras("a secured sandbox", "testing"):
            import trustme
        authority = trustme.CA()
        made = cls(directory, users, authority, reauthenticate_ms)
        authority.cert_pem.write_to_path(made.truststore)
        made.certificate("127.0.0.1")
        return made

    @property
    def truststore(self) -> Path:
        """The authority's certificate, as PEM."""
        return self.directory / "ca.pem"

    def certificate(self, name: str, *, password: str | None = None) -> Path:
        """Return a file with a private key and the certificate of ``name``, as PEM. On the listener with TLS alone, its
        holder is ``User:<name>``.
        """
        from cryptography.hazmat.primitives import serialization as pem

        issued = self.authority.issue_cert(name, common_name=name)
        key = pem.load_pem_private_key(issued.private_key_pem.bytes(), None)
        secret = pem.BestAvailableEncryption(password.encode()) if password else pem.NoEncryption()
        # PKCS #8: Kafka's brokers read no other form
        parts = [
            key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, secret),
            *(chain.bytes() for chain in issued.cert_chain_pems),
        ]
        path = self.directory / f"{name}.pem"
        path.touch(0o600)
        path.write_bytes(b"".join(parts))
        return path

    def broker_settings(self) -> dict[str, str]:
        """Return the broker properties of these listeners, without their ports."""
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "127.0.0.1.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.truststore),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": r"RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        users = " ".join(f'user_{name}="{_quoted(password)}"' for name, password in self.users.items())
        modules = {
            "plain": f"{_MODULE}plain.PlainLoginModule required {users};",
            "scram-sha-256": f"{_MODULE}scram.ScramLoginModule required;",
            "scram-sha-512": f"{_MODULE}scram.ScramLoginModule required;",
            "oauthbearer": f"{_MODULE}oauthbearer.OAuthBearerLoginModule required"
            ' unsecuredLoginStringClaim_sub="broker";',
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            for mechanism, module in modules.items():
                settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = module
                settings[f"listener.name.{listener}.{mechanism}.connections.max.reauth.ms"] = str(
                    self.reauthenticate_ms
                )
        return settings


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
