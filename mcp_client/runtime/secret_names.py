"""Recognize the names of secrets: ``api_key``, ``API-Key``, ``dbPassword``, ``X-Auth-Token``.

A name is split into words at its case and punctuation (``apiKey``, ``api_key``, ``API KEY``). It is
a secret's name if up to three words that follow one another, written together, are one of the keys;
or if it ends with a key of at least five letters (``dbpassword``), or begins with one of the
unmistakable ones (``passwordconfirmation``).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable

__all__ = ["KEYS", "SecretNames", "SecretText", "usual_names"]

KEYS: frozenset[str] = frozenset(
    """
    password passwords passwd passphrase passcode pass pwd secret secrets token auth authorization
    authtokens accesstokens refreshtokens apitokens apikey apikeys accesskey accesskeys accountkey
    privatekey privatekeys privkey signingkey encryptionkey sessionkey masterkey sshkey authkey
    licensekey psk credential credentials cookie cookies sessionid jwt bearer otp totp pin cvv cvc
    ssn csrf xsrf connectionstring seedphrase mnemonic webhook webhookurl clientassertion
    verificationcode recoverycode recoverycodes backupcode backupcodes securitycode cardnumber
    creditcard passwort kennwort contrasena senha motdepasse пароль 密码 密碼 パスワード 비밀번호
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""Names of secrets: lower case, letters and digits alone."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NOT_LETTERS = re.compile(r"[\W_]+")
_UNMISTAKABLE = ("password", "passwd", "passphrase", "apikey", "accesstoken", "privatekey")
_QUALIFIERS = frozenset(
    """
    value hash text string raw plain base64 confirm confirmation again repeat old new current prod
    production staging dev test
    """.split()  # noqa: SIM905
)
_MAX_NAME_CHARS = 4_096
_MIN_ENDING_CHARS = 5
"""Letters of a key that counts at the end of a longer word: ``compass`` is not a ``pass``."""


class SecretText(str):
    """A text that has ``secrets`` in it, whatever it is the value of: it is in no digest."""

    __slots__ = ("secrets",)
    secrets: tuple[str, ...]

    def __new__(cls, text: str, secrets: Iterable[str]) -> SecretText:
        """Create it."""
        made = super().__new__(cls, text)
        made.secrets = tuple(secrets)
        return made

    def __repr__(self) -> str:
        return "'***'"


class SecretNames:
    """Judges names by a set of keys. Judgements are cached: names repeat from call to call."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys: frozenset[str] = frozenset(
            _NOT_LETTERS.sub("", str(key).lower()) for key in keys
        ) - {""}
        self._endings = tuple(sorted(key for key in self.keys if len(key) >= _MIN_ENDING_CHARS))
        self._beginnings = tuple(key for key in _UNMISTAKABLE if key in self.keys)
        self._plurals = frozenset(f"{key}s" for key in self.keys if not key.endswith("s"))
        self._foreign = tuple(key for key in self.keys if not key.isascii())
        self.is_secret: Callable[[str], bool] = functools.lru_cache(1_024)(self._is_secret)
        self.ends_as_secret: Callable[[str], bool] = functools.lru_cache(1_024)(
            self._ends_as_secret
        )
        self.is_plural: Callable[[str], bool] = functools.lru_cache(1_024)(self._is_plural)

    def _is_secret(self, name: str) -> bool:
        """Whether ``name`` names a secret, as the name of a member or parameter."""
        words = _words(name)
        joined = "".join(words)
        if joined.endswith(self._endings) or joined.startswith(self._beginnings):
            return True
        if self._foreign and not name.isascii():
            folded = unicodedata.normalize("NFKC", name[:_MAX_NAME_CHARS]).lower()
            if any(key in folded for key in self._foreign):
                return True
        return any(
            "".join(words[start:end]) in self.keys
            for start in range(len(words))
            for end in range(start + 1, min(start + 3, len(words)) + 1)
        )

    def _ends_as_secret(self, name: str) -> bool:
        """Whether its last words are those of a secret.

        ``token count`` is a count, ``AUTH_HOST`` a host, and ``the new password`` a password.
        """
        words = _words(name)
        while words and (words[-1].isdecimal() or words[-1] in _QUALIFIERS):
            words.pop()
        if not words:
            return False
        if words[-1].endswith(self._endings) or "".join(words).startswith(self._beginnings):
            return True
        return any("".join(words[-count:]) in self.keys for count in (1, 2, 3))

    def _is_plural(self, name: str) -> bool:
        """Whether ``name`` names several secrets or a count of them: ``tokens``."""
        words = _words(name)
        return any("".join(words[-count:]) in self._plurals for count in (1, 2, 3))


@functools.lru_cache(1)
def usual_names() -> SecretNames:
    """Return the judgements by ``KEYS``, which all sessions share."""
    return SecretNames(KEYS)


def _words(name: str) -> list[str]:
    name = name[:_MAX_NAME_CHARS]
    if not name.isascii():
        # Accents and full-width forms of letters do not hide a name.
        name = "".join(
            char
            for char in unicodedata.normalize("NFKD", name)
            if unicodedata.category(char) != "Mn"
        )
    return [word.lower() for word in _WORD.findall(name)]
