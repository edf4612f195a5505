"""Options of TLS and SASL: as Kafka's and Spark's users have them, refused where they contradict each other or need a
JVM, and never shown.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.config import ClientConfig
from semel.errors import ConfigError, SemelError, Unsupported
from semel.jaas import parse_jaas
from semel.security import AwsLogin, Security

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def parse(**properties: Any) -> Security:
    return ClientConfig.parse({"bootstrap.servers": "localhost:9092", **properties}).security


def refusal(properties: dict[str, Any]) -> SemelError:
    with pytest.raises(SemelError) as refused:
        parse(**properties)
    assert "Nothing was sent" in refused.value.message
    return refused.value


# ---- sasl.jaas.config


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="secret";', {"username": "alice", "password": "secret"}),
        (f"{PLAIN}  required\n username='alice'\n password = plain ;  ", {"username": "alice", "password": "plain"}),
        (
            f'kafkashaded.{PLAIN} required username="$ConnectionString" password="a=b;c";',
            {"username": "$ConnectionString", "password": "a=b;c"},
        ),
        (
            rf'{PLAIN} required username="a" password="quote \" and \\ back";',
            {"username": "a", "password": r"quote \" and \ back".replace('\\"', '"')},
        ),
        (f"{PLAIN} required;", {}),
        # as Java's StreamTokenizer, which Kafka reads it with
        (rf'{PLAIN} required password="a\tb\n\101\7\e";', {"password": "a\tb\nA\x07e"}),
        (
            f'// ours\n{PLAIN} /* the\n class */ required username="//no/*comment*/" ; // the end',
            {"username": "//no/*comment*/"},
        ),
        (f'{PLAIN} required username=alice / its rest\n password="p";', {"username": "alice", "password": "p"}),
    ],
)
def test_what_users_have(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text, "PLAIN").options == options


@given(st.text())
def test_any_password_comes_through(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas(f'{SCRAM} required password="{quoted}";', "SCRAM-SHA-256").get("password") == password


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        PLAIN,
        f'{PLAIN} required username="alice" password="hidden"',
        f'{PLAIN} required username="alice" password="hidden;',
        f'{PLAIN} maybe password="hidden";',
        f'{PLAIN} required password "hidden";',
        f'{PLAIN} required password="hidden"; {PLAIN} required;',
        f"{PLAIN} required password==;",
    ],
)
def test_what_cannot_be_read_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match="Give it as") as refused:
        parse_jaas(text, "PLAIN")
    assert "hidden" not in str(refused.value)


@given(st.text(alphabet=" =;\"'\\ab\n", max_size=30))
def test_no_text_is_a_surprise(text: str) -> None:
    try:
        parse_jaas(text, "PLAIN")
    except SemelError:
        return
    assert text.rstrip().endswith(";")


def test_modules_that_only_java_has() -> None:
    with pytest.raises(Unsupported, match="Krb5LoginModule"):
        parse_jaas("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "GSSAPI")


def test_a_module_of_another_mechanism() -> None:
    with pytest.raises(ConfigError, match=r"is for PLAIN, and sasl\.mechanism is SCRAM-SHA-256"):
        parse_jaas(f"{PLAIN} required;", "SCRAM-SHA-256")


# ---- SASL


def test_a_login_is_read_from_either() -> None:
    by_jaas = parse(**SASL, **{"sasl.jaas.config": f'{PLAIN} required username="alice" password=" s ";'})
    by_name = parse(**SASL, **{"sasl.username": "alice", "sasl.password": " s "})
    assert by_jaas == by_name
    assert by_name.sasl is not None
    assert (by_name.sasl.username, by_name.sasl.password) == ("alice", " s ")


def test_tokens_by_client_credentials() -> None:
    jaas = f'{OAUTH} required clientId="alice" clientSecret="s" scope="orders" extension_tenant="eu";'
    sasl = parse(**TOKENS, **{"sasl.oauthbearer.token.endpoint.url": "https://id/token", "sasl.jaas.config": jaas}).sasl
    assert sasl is not None
    assert (sasl.username, sasl.password, sasl.token_endpoint, sasl.scope) == (
        "alice",
        "s",
        "https://id/token",
        "orders",
    )
    assert sasl.extensions == (("tenant", "eu"),)


IAM = "software.amazon.msk.auth.iam.IAM"


@pytest.mark.parametrize(
    ("jaas", "properties"),
    [
        (
            f"{IAM}LoginModule required{{}};",
            {"sasl.mechanism": "AWS_MSK_IAM", "sasl.client.callback.handler.class": f"{IAM}ClientCallbackHandler"},
        ),
        (
            f"{OAUTH} required{{}};",
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": f"{IAM}OAuthBearerLoginCallbackHandler",
            },
        ),
    ],
)
def test_an_identity_of_aws_as_its_users_write_it(jaas: str, properties: dict[str, str]) -> None:
    options = ' awsProfileName="ops" awsRoleArn="arn:aws:iam::1:role/r" awsRoleSessionName="s"'
    for servers, region in (
        ("b-1.orders.x1.c2.kafka.eu-west-1.amazonaws.com:9098", "eu-west-1"),
        ("boot-x.c3.kafka-serverless.us-east-2.amazonaws.com:9098", "us-east-2"),
        ("b-1.orders.x1.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("broker.example:9098", ""),
    ):
        of_options = {"security.protocol": "SASL_SSL", "bootstrap.servers": servers, **properties}
        sasl = ClientConfig.parse({**of_options, "sasl.jaas.config": jaas.format(options)}).security.sasl
        assert sasl is not None
        assert (sasl.mechanism, sasl.aws) == ("OAUTHBEARER", AwsLogin(region, "ops", "arn:aws:iam::1:role/r", "s"))
    sasl = ClientConfig.parse({**of_options, "sasl.jaas.config": jaas.format("")}).security.sasl
    assert sasl is not None
    assert sasl.aws == AwsLogin()


@pytest.mark.parametrize(
    ("properties", "kind", "said"),
    [
        ({"security.protocol": "TLS"}, ConfigError, "SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, Unsupported, "GSSAPI (Kafka's default"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, Unsupported, "GSSAPI is not spoken"),
        ({"sasl.username": "alice"}, ConfigError, "security.protocol=PLAINTEXT does not use it"),
        (
            {"security.protocol": "SSL", "sasl.mechanism": "PLAIN"},
            ConfigError,
            "security.protocol=SSL does not use it",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "ssl.keystore.type": "PEM"},
            ConfigError,
            "less safe than what was asked for",
        ),
        ({"sasl.kerberos.service.name": "kafka"}, Unsupported, "only a JVM"),
        ({**SASL, "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.X"}, Unsupported, "only a JVM"),
        (
            {**SASL, "sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": f"{OAUTH} required;"},
            ConfigError,
            "is for OAUTH",
        ),
        (
            {**TOKENS, "sasl.login.callback.handler.class": "com.google.cloud.X"},
            Unsupported,
            "sasl.oauthbearer.token.provider",
        ),
        (SASL, ConfigError, "sasl.jaas.config"),
        ({**SASL, "sasl.username": "alice"}, ConfigError, "a user name and a password"),
        (TOKENS, ConfigError, "sasl.oauthbearer.token.endpoint.url"),
        ({**TOKENS, "sasl.oauthbearer.token.provider": "mine"}, ConfigError, "module:function"),
        (
            {**TOKENS, "sasl.oauthbearer.token.provider": "a:b", "sasl.oauthbearer.token.endpoint.url": "file:///t"},
            ConfigError,
            "no https address",
        ),
        (
            {
                **TOKENS,
                "sasl.oauthbearer.token.provider": "a:b",
                "sasl.oauthbearer.token.endpoint.url": "https://u:p@h/t",
            },
            ConfigError,
            "holds a user",
        ),
        (
            {**SASL, "sasl.jaas.config": f'{PLAIN} required username="a" password="p" tokenauth="true";'},
            Unsupported,
            "delegation token",
        ),
    ],
)
def test_logins_that_are_refused(properties: dict[str, str], kind: type[SemelError], said: str) -> None:
    refused = refusal(properties)
    assert type(refused) is kind
    assert said in refused.message


# ---- TLS


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (
            {"ssl.truststore.location": "/t", "ssl.truststore.type": "pem", "ssl.truststore.password": "hidden"},
            "has none",
        ),
        ({"ssl.truststore.certificates": "x", "ssl.truststore.password": "x"}, "has none"),
        ({"ssl.truststore.certificates": "x", "ssl.truststore.type": "JKS"}, "Remove the type"),
        ({"ssl.truststore.password": "hidden"}, "Give both"),
        ({"ssl.keystore.location": "/k.pem", "ssl.keystore.password": "hidden"}, "ssl.key.password"),
        ({"ssl.keystore.location": "/k.pem", "ssl.keystore.key": "hidden"}, "both given"),
        ({"ssl.keystore.key": "hidden"}, "ssl.keystore.certificate.chain"),
        ({"ssl.truststore.location": ""}, "is empty"),
        ({"ssl.keystore.key": "", "ssl.keystore.certificate.chain": ""}, "is empty"),
        ({"ssl.keystore.type": "BCFKS"}, "not one of PEM, JKS, PKCS12"),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "https"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "Remove it"),
        ({"ssl.engine.factory.class": "X"}, "only a JVM"),
    ],
)
def test_stores_that_are_refused(properties: dict[str, str], said: str) -> None:
    refused = refusal({"security.protocol": "SSL", **properties})
    assert said in refused.message
    assert "hidden" not in refused.message


def test_javas_stores_are_taken() -> None:
    properties = {
        "ssl.truststore.location": "/t.jks",
        "ssl.truststore.password": " hidden ",
        "ssl.truststore.type": "JKS",
    }
    properties |= {"ssl.keystore.location": "/k", "ssl.keystore.password": "hidden", "ssl.key.password": "hidden"}
    tls = parse(**{"security.protocol": "SSL", **properties}).tls
    assert tls is not None
    assert (tls.truststore_password, tls.keystore_location) == (" hidden ", "/k")
    assert "hidden" not in repr(tls)


def test_what_java_chooses_between_is_passed_over() -> None:
    assert parse(**{"security.protocol": "SSL", "ssl.protocol": "TLSv1.3"}) == parse(**{"security.protocol": "SSL"})


def test_host_names_are_checked_unless_told_otherwise() -> None:
    checked, unchecked = (
        parse(**{"security.protocol": "SSL"}),
        parse(**{"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": ""}),
    )
    assert checked.tls is not None
    assert unchecked.tls is not None
    assert (checked.tls.check_host_name, unchecked.tls.check_host_name) == (True, False)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean ssl\.truststore\.location\?"):
        parse(**{"ssl.trustore.location": "/ca.pem"})


# ---- secrets


def test_secrets_are_not_shown_and_travel() -> None:
    secrets = {
        "sasl.password": "hidden-1",
        "ssl.key.password": "hidden-2",
        "ssl.keystore.key": "hidden-3",
        "ssl.keystore.certificate.chain": "hidden-4",
    }
    config = ClientConfig.parse({"bootstrap.servers": "localhost:9092", **SASL, "sasl.username": "alice", **secrets})
    assert "hidden" not in f"{config!r} {config}"
    assert "alice" in repr(config)
    assert pickle.loads(pickle.dumps(config)) == config
    login = parse_jaas(f'{PLAIN} required username="alice" password="hidden";', "PLAIN")
    assert "hidden" not in repr(login)
