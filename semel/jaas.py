"""The little language of ``sasl.jaas.config``: ``class required name="value" …;``, as users of Kafka's and Spark's
clients have it.

The class says which mechanism it is for; whichever jar it was renamed into (``kafkashaded.…``) does not matter. No
error holds any of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from semel.errors import ConfigError, Unsupported

__all__ = ["Login", "option_of_entry", "parse_jaas"]

_MODULES: Final = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "IAMLoginModule": ("AWS_MSK_IAM",),
}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
#: Java's StreamTokenizer reads it: what lies between two tokens, and what a backslash means in a quoted one.
_BETWEEN: Final = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/|/[^\n]*)*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_TOKEN: Final = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s=;"'/]+)|([=;]))""", re.DOTALL)
_EXAMPLE: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'
_EXTENSION: Final = "extension_"


@dataclass(frozen=True, slots=True)
class Login:
    """The options of a login module. Not shown: one of them is a password."""

    options: dict[str, str]

    def __repr__(self) -> str:
        return f"Login({', '.join(self.options)})"

    def get(self, name: str) -> str:
        """Return an option, or an empty text."""
        return self.options.get(name, "")

    @property
    def extensions(self) -> tuple[tuple[str, str], ...]:
        """The extensions of a token."""
        return tuple(
            (name.removeprefix(_EXTENSION), value)
            for name, value in self.options.items()
            if name.startswith(_EXTENSION)
        )


def parse_jaas(text: str, mechanism: str) -> Login:
    """Read the one login module that a client has.

    Raises :class:`ConfigError` where it does not fit, :class:`Unsupported` for other modules.
    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (";", True):
        raise _malformed("it must be a class, a flag, options, and a semicolon at the end")
    (module, _), (flag, _), body = tokens[0], tokens[1], tokens[2:-1]
    mechanisms = _MODULES.get(module.rsplit(".", 1)[-1])
    if mechanisms is None:
        raise Unsupported(
            f"sasl.jaas.config names {_shown(module)}, which cannot be run here. Nothing was sent. Use one of"
            f" {', '.join(_MODULES)}.",
            tag="SASL_MECHANISM",
        )
    if mechanism not in mechanisms:
        raise ConfigError(
            f"sasl.jaas.config is for {' or '.join(mechanisms)}, and sasl.mechanism is {mechanism}. Nothing was sent."
            " Make them agree.",
            tag="SASL_LOGIN",
        )
    if flag.lower() not in _FLAGS:
        raise _malformed(f"after the class there must be one of {', '.join(_FLAGS)}")
    names, equals, values = body[0::3], body[1::3], body[2::3]
    if len(body) % 3 or any(token != ("=", True) for token in equals) or any(mark for _, mark in (*names, *values)):
        raise _malformed('options must be name="value"; it may hold one module only')
    options = {name: value for (name, _), (value, _) in zip(names, values, strict=True)}
    if options.get("tokenauth", "").lower() == "true":
        raise Unsupported(
            "sasl.jaas.config holds a delegation token (tokenauth), which is not spoken here. Nothing was sent. Give"
            " a user and a password.",
            tag="SASL_MECHANISM",
        )
    return Login(options)


def option_of_entry(text: str, entry: str, module: str, option: str) -> str:
    """Return an option of a login module in a file of entries; an empty text where it is not there."""
    words = [word for word, _ in _tokens(text)]
    try:
        start = next(place for place in range(len(words)) if words[place : place + 2] == [entry, "{"])
        inside = words[start + 2 : words.index("}", start)]
        first = next(place for place, word in enumerate(inside) if word.rsplit(".", 1)[-1] == module)
        options = inside[first : inside.index(";", first)]
        place = options.index(option)
    except (StopIteration, ValueError):
        return ""
    return options[place + 2] if options[place + 1 : place + 2] == ["="] and len(options) > place + 2 else ""


def _shown(module: str) -> str:
    """Return a module's name if it is a name. Anything else may be a secret."""
    name = module.rsplit(".", 1)[-1]
    return name if name.endswith("LoginModule") else "no login module in its first word"


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Each piece, and whether it is a mark of the language itself."""
    tokens: list[tuple[str, bool]] = []
    position = _skip(text, 0)
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _malformed("a quotation mark is not closed")
        position = _skip(text, found.end())
        quoted = found[1] if found[1] is not None else found[2]
        if quoted is not None:
            tokens.append((_ESCAPE.sub(_unescaped, quoted), False))
        else:
            tokens.append((found[3] or found[4], found[4] is not None))
    return tokens


def _skip(text: str, position: int) -> int:
    """Behind the blanks and comments from ``position`` on."""
    found = _BETWEEN.match(text, position)
    return found.end() if found else position


def _unescaped(found: re.Match[str]) -> str:
    text = found[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPED.get(text, text)


def _malformed(what: str) -> ConfigError:
    return ConfigError(
        f"sasl.jaas.config cannot be read: {what}. Nothing was sent. Give it as {_EXAMPLE}", tag="SASL_LOGIN"
    )
