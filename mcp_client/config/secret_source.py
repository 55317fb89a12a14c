"""Secrets that are named by their place: ``file:PATH`` and ``keyring:SERVICE/USER``.

The words of the shell (``--header NAME=file:PATH``) and the values of config files (``"Bearer
${keyring:SERVICE/USER}"``) are read here, and nowhere else. A config file's are read when its
server is started, after the approval: the approval is for the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..errors import ConfigError
from ..runtime.safe_text import safe_text
from ..runtime.secret_names import SecretText
from .fields import ConfigProblem, ParsedFile, shown_key
from .values import Expanded, SecretReference, Unset, file_text, keyring_entry

__all__ = ["Secrets", "secret_of"]

_MAX_BYTES = 64 * 1024
_MAX_CHARS = 1024 * 1024
"""The characters of all values of one server that have secrets."""


def secret_of(kind: str, place: str, *, shown: str | None = None, pipes: bool = False) -> str:
    """Return the one line of the file or the entry of the keyring at ``place``.

    This may wait for a person who unlocks the keyring; with ``pipes``, also for a writer of a pipe.
    Raises ``Unset``, without the content.
    """
    name = safe_text(f"{kind}:{shown or place}", 200)
    if kind == "file":
        path = Path(place).expanduser()
        text = file_text(path, _MAX_BYTES, shown=shown or place, pipes=pipes)
        secret = text.removesuffix("\n").removesuffix("\r")
    else:
        secret = _of_keyring(place)
    if not secret:
        raise Unset(f"{name} is empty: put the secret there")
    if any(sign in secret for sign in "\r\n\0") or not _is_text(secret):
        raise Unset(f"{name} is not one line of text: leave only the secret there")
    return secret


def _of_keyring(place: str) -> str:
    from ..auth.store import keyring_secret  # only if one is named

    service, user = keyring_entry(place)
    try:
        found = keyring_secret(service, user)
    except ConfigError as error:
        raise Unset(error.message) from None
    if not found:
        raise Unset(
            f"the keyring has nothing for {safe_text(user, 60)!r} of {safe_text(service, 200)!r}; "
            "'keyring set' of the package keyring puts it there"
        )
    return found


def _is_text(secret: str) -> bool:
    try:
        secret.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False
    return True


class Secrets:
    """The secrets that one server of a config file refers to, each read once."""

    def __init__(self, parsed: ParsedFile) -> None:
        self._parsed = parsed
        self._known: dict[SecretReference, str] = {}
        self._left = _MAX_CHARS

    def put_into(self, texts: Mapping[str, Expanded]) -> dict[str, Expanded]:
        """Raise ``ConfigError``, with the place of the reference."""
        return {name: self._filled(each) if each.parts else each for name, each in texts.items()}

    def _filled(self, text: Expanded) -> Expanded:
        try:
            parts = [
                self._read(part) if isinstance(part, SecretReference) else part
                for part in text.parts
            ]
            self._left -= sum(map(len, parts))
            if self._left < 0:
                raise Unset(
                    f"it makes more than {_MAX_CHARS:,} characters with the others: use fewer"
                )
        except Unset as error:
            parsed = self._parsed
            line, key = parsed.document.line(text.at), shown_key(text.at)
            raise ConfigError(str(ConfigProblem(parsed.path, line, key, str(error)))) from None
        secrets = (self._known[each] for each in text.secrets)
        return text._replace(value=SecretText("".join(parts), secrets), parts=())

    def _read(self, reference: SecretReference) -> str:
        kind, name, place = reference
        if reference not in self._known:
            if kind == "file":
                self._parsed.variables.files.check(reference)
            self._known[reference] = secret_of(kind, place, shown=name)
        return self._known[reference]
