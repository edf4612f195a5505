"""A cluster with TLS, SASL and ACLs, its users, and what each of them would give as options.

Administered with a client that is not ours.
"""

from __future__ import annotations

import base64
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from semel.sandbox import Sandbox, Secured
from tests.support.waiting import wait_for

#: A blank at its end, quotation marks and a backslash: all that gets lost on the way through other people's parsers.
PASSWORD = 'Kept "secret" by \\ alice '
#: How long a login holds.
LOGIN_MS = 3_000

Right = tuple[ResourceType, str, AclOperation]
EVERYTHING: list[Right] = [
    (ResourceType.TOPIC, "*", AclOperation.ALL),
    (ResourceType.GROUP, "*", AclOperation.ALL),
    (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.ALL),
]


@dataclass(frozen=True)
class SecuredKafka:
    """A cluster, and how to come in."""

    kafka: Sandbox
    secured: Secured
    #: By the plain listener, where everything is allowed. A client that nobody holds ends before it has its answers.
    admin: AdminClient

    def add_scram_user(self, name: str, password: str) -> None:
        """With both kinds of SCRAM. Returns when the brokers know."""
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion(name, ScramCredentialInfo(kind, 4096), password.encode())
            for done in self.admin.alter_user_scram_credentials([change]).values():
                done.result(30)
        wait_for(
            lambda: (
                len(self.admin.describe_user_scram_credentials([name])[name].result(30).scram_credential_infos) == 2
            ),
            f"user {name}",
        )

    def allow(self, user: str, rights: Iterable[Right]) -> None:
        """Give rights. Returns when the brokers know."""
        bindings = [_binding(user, right) for right in rights]
        for done in self.admin.create_acls(bindings).values():
            done.result(30)
        wait_for(lambda: set(bindings) <= self._known(user), f"the rights of {user}")

    def withdraw(self, user: str, right: Right) -> None:
        """Take a right away. Returns when the brokers know."""
        binding = _binding(user, right)
        for done in self.admin.delete_acls([AclBindingFilter(*_parts(binding))]).values():
            done.result(30)
        wait_for(lambda: binding not in self._known(user), f"the end of a right of {user}")

    def _known(self, user: str) -> set[AclBinding]:
        of_user = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            f"User:{user}",
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        return set(self.admin.describe_acls(of_user).result(30))

    def tls(self, protocol: str = "SASL_SSL") -> dict[str, str]:
        """The options of whoever believes this cluster."""
        trust = (
            {"ssl.truststore.location": str(self.secured.truststore), "ssl.truststore.type": "PEM"}
            if protocol.endswith("SSL")
            else {}
        )
        return {"bootstrap.servers": self.kafka.servers(protocol), "security.protocol": protocol, **trust}

    def login(self, mechanism: str, user: str, password: str, protocol: str = "SASL_SSL") -> dict[str, str]:
        """The options of a user with a password, in the words of Kafka's own clients."""
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        quoted = password.replace("\\", "\\\\").replace('"', '\\"')
        jaas = f'org.apache.kafka.common.security.{module} required username="{user}" password="{quoted}";'
        return {**self.tls(protocol), "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def _parts(acl: AclBinding) -> tuple[Any, ...]:
    return acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type


def _binding(user: str, right: Right) -> AclBinding:
    kind, name, operation = right
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def unsigned_token(user: str, *, life_s: float = 3600) -> str:
    """A token that the cluster takes as it is."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + life_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


def token_of_alice() -> tuple[str, float]:
    """For ``sasl.oauthbearer.token.provider``."""
    return unsigned_token("alice"), time.time() + 3600


@contextmanager
def secured_kafka() -> Iterator[SecuredKafka]:
    """One node, with user alice, who may do everything; the listener SASL_PLAINTEXT takes PLAIN alone."""
    with tempfile.TemporaryDirectory(prefix="semel-secured-") as directory:
        secured = Secured.make(Path(directory), {"alice": PASSWORD}, reauthenticate_ms=LOGIN_MS)
        only_plain = {"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN"}
        with Sandbox.start(secured=secured, settings=only_plain) as kafka:
            cluster = SecuredKafka(kafka, secured, AdminClient({"bootstrap.servers": kafka.bootstrap_servers}))
            cluster.add_scram_user("alice", PASSWORD)
            cluster.allow("alice", EVERYTHING)
            yield cluster
