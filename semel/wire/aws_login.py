"""Tokens for AWS_MSK_IAM: a login by an AWS identity, carried by OAUTHBEARER.

The identity is found as by every program of AWS: variables, profiles, the role of the machine. No error of this module
holds a key or a token.
"""

from __future__ import annotations

import os
import time
from typing import Any

from semel.errors import ConfigError, Retriable
from semel.extras import needs_extras
from semel.security import AwsLogin

__all__ = ["aws_token"]


def aws_token(login: AwsLogin) -> tuple[str, float]:
    """Return a token, and the seconds for which it holds.

    Raise :class:`ConfigError` if there is no identity, :class:`Retriable` if a service of AWS does not answer.
    """
    with needs_extras("sasl.mechanism=AWS_MSK_IAM", "aws", "Nothing was sent."):
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError
    region = login.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise ConfigError(
            "the AWS region of the cluster is not known: bootstrap.servers does not name it. Nothing was sent. Set"
            " AWS_REGION on every machine that connects.",
            tag="SASL_LOGIN",
        )
    try:
        token, ends_ms = _signed(MSKAuthTokenProvider, login, region)
    except (ConnectionError, HTTPClientError) as error:
        raise Retriable(f"AWS could not be asked for a login: {type(error).__name__}.", tag="CONNECTION") from None
    except (BotoCoreError, ClientError, ValueError, AttributeError) as error:  # AttributeError: no identity was found
        raise ConfigError(
            f"AWS gave no login ({type(error).__name__}). Nothing was sent. Every machine that connects needs an"
            " identity of AWS: a role, a profile, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
            tag="SASL_LOGIN",
        ) from None
    return str(token), ends_ms / 1000 - time.time()


def _signed(signer: Any, login: AwsLogin, region: str) -> tuple[str, float]:
    if login.role_arn:
        names = (login.session_name,) if login.session_name else ()
        made = signer.generate_auth_token_from_role_arn(region, login.role_arn, *names)
    elif login.profile:
        made = signer.generate_auth_token_from_profile(region, login.profile)
    else:
        made = signer.generate_auth_token(region)
    token, ends_ms = made
    return token, ends_ms
