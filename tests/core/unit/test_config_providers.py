"""Config providers: what variables in properties stand for, and what they may not reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.config_providers import Providers
from semel.errors import ConfigError

JAVA = "org.apache.kafka.common.config.provider."


def providers(**more: str) -> Providers:
    given = {
        "config.providers": "file, dir,env",
        "config.providers.file.class": f"{JAVA}FileConfigProvider",
        "config.providers.dir.class": "DirectoryConfigProvider",
        "config.providers.env.class": f"{JAVA}EnvVarConfigProvider",
    }
    return Providers.parse(
        given | {f"config.providers.{name.replace('_', '.')}": value for name, value in more.items()}
    )


def test_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.properties").write_text("password=a:b\nuser=me\n")
    monkeypatch.setenv("SEMEL_TEST_SECRET", "from the environment")
    given = {
        "url": f"x://${{file:{tmp_path}/secrets.properties:user}}:${{file:{tmp_path}/secrets.properties:password}}@y",
        "whole": f"${{dir:{tmp_path}:secrets.properties}}",
        "variable": "${env:SEMEL_TEST_SECRET}",
        "another": "${vault:a:b} and ${plain} and $x",
    }
    assert providers().resolve(given) == {
        "url": "x://me:a:b@y",
        "whole": "password=a:b\nuser=me\n",
        "variable": "from the environment",
        "another": given["another"],
    }


@pytest.mark.parametrize(
    ("value", "more"),
    [
        ("${file:/no/such/file:key}", {}),
        ("${dir:/etc:../passwd}", {}),
        ("${env:SEMEL_NO_SUCH_VARIABLE}", {}),
        ("${env:PATH}", {"env_param_allowlist_pattern": "SEMEL_.*"}),
        ("${dir:/etc:hostname}", {"dir_param_allowed_paths": "/tmp, /var"}),
    ],
)
def test_what_is_not_found_or_not_allowed(value: str, more: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="is not found, or not allowed"):
        providers(**{name.replace("_param", ".param").replace("_", "."): one for name, one in more.items()}).resolve(
            {"a": value}
        )


def test_classes_and_parameters_that_are_unknown() -> None:
    with pytest.raises(ConfigError, match="is not a known provider"):
        providers(file_class="com.acme.Vault")
    with pytest.raises(ConfigError, match=r"takes param\.allowed\.paths"):
        providers(file_param_allowed_path="/")
