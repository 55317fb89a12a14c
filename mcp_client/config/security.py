"""The sandbox, the login and the secrets of a server in a config file.

The key of this package, in any program's file, is ``"mcp-client": {"sandbox": true}``, or an object
with the arguments of ``Sandbox``: ``read``, ``write``, ``network``. Relative paths are below the
directory that servers run in.

VS Code's keys are ``sandboxEnabled`` of a server, and ``sandbox`` with ``filesystem`` and
``network``, of a server or of the whole file. There a server reads everything but what is denied,
and reaches the domains that are allowed. Here it reads the system's programs, its own, and
``allowRead``. It writes ``allowWrite`` and not its directory by default. It reaches no network,
because domains cannot be distinguished. A grant that a denial overlaps does not apply. So nothing
is wider than it is there. A request beyond that is a problem; this package's key can grant it
instead.

Secrets are named by their place: ``file:PATH`` and ``keyring:SERVICE/USER``. The words of the shell
(``--header NAME=file:PATH``) and the values of config files (``"Bearer
${keyring:SERVICE/USER}"``) are read here, and nowhere else. A config file's are read when its
server is started, after the approval: the approval is for the reference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ..errors import ConfigError
from ..runtime.safe_text import safe_text
from ..runtime.secret_names import SecretText
from ..runtime.urls import is_loopback
from .fields import ConfigProblem, Fields, ParsedFile, shown_key
from .programs import UNUSED, as_own
from .values import Expanded, SecretReference, Unset, file_text, keyring_entry

if TYPE_CHECKING:
    from ..sandbox.sandbox import Sandbox

__all__ = ["GivenSandbox", "Secrets", "own_sandbox", "read_login", "secret_of", "vscode_sandbox"]

_INSTEAD = "grant what it may do with 'mcp-client': {'sandbox': {...}}"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/System")
"""The paths that each sandbox may read, in parts."""
_GLOB = frozenset("*?[{")
_PLAIN = re.compile(r"[\w@%+=:./~${}\\-]+")
_FILES = ("allowRead", "denyRead", "allowWrite", "denyWrite")
_DOMAINS = ("allowedDomains", "deniedDomains")
_LOGIN = {
    "clientId": "client_id",
    "client_id": "client_id",
    "CLIENT_ID": "client_id",
    "clientSecret": "client_secret",
    "client_secret": "client_secret",
    "CLIENT_SECRET": "client_secret",
    "scopes": "scopes",
    "redirectUri": "redirect_uri",
    "callbackPort": "callback_port",
    "enabled": "enabled",
    **dict.fromkeys(
        """
        audiences authorizationUrl authServerMetadataUrl issuer registrationUrl tokenParamName
        tokenUrl
        """.split(),  # noqa: SIM905 - a list of words is read as words
        UNUSED,
    ),
}
_MAX_BYTES = 64 * 1024
_MAX_CHARS = 1024 * 1024
"""The characters of all values of one server that have secrets."""


class GivenSandbox(NamedTuple):
    """A sandbox with its paths as they are and as they may be shown."""

    read: tuple[Expanded, ...] = ()
    write: tuple[Expanded, ...] = ()
    network: str = "none"

    def made(self) -> Sandbox:
        """Raise ``ConfigError``: without what a variable brought."""
        from ..sandbox.sandbox import Sandbox

        read, write = ([one.value for one in each] for each in (self.read, self.write))
        try:
            return Sandbox(read, write, self.network)  # type: ignore[arg-type]
        except ConfigError:
            if any(one.used for one in (*self.read, *self.write)):
                raise ConfigError(
                    "its sandbox cannot grant a path after variables are replaced: check them"
                ) from None
            raise

    @property
    def places(self) -> Mapping[str, Expanded]:
        """The paths, by their place in the file."""
        lists = (("read", self.read), ("write", self.write))
        return {
            f"sandbox.{name}[{number}]": one
            for name, paths in lists
            for number, one in enumerate(paths)
        }


def own_sandbox(fields: Fields, ours: str) -> GivenSandbox | bool | None:
    """Return the sandbox of our own key; None if it is missing or wrong."""
    value = fields.raw(ours)
    if value is None or value is True:
        return None if value is None else GivenSandbox()
    if value is False:
        if fields.parsed.scope == "user":
            return False
        fields.note(
            "sandbox", "has no effect: only a user's own file may start a server without one"
        )
        return None
    inner = fields.inside("sandbox", as_own("read", "write", "network"), "mcp-client")
    read, write = _paths(inner, "read"), _paths(inner, "write")
    network = inner.raw("network")
    if network is not None and not isinstance(network, str):
        inner.wrong("network", "is not a text: write it in double quotes")
        network = None
    return _checked(inner, GivenSandbox(read, write, network or "none"))


def vscode_sandbox(fields: Fields) -> GivenSandbox | None:
    """Return the sandbox of VS Code's keys."""
    if not fields.flag("sandbox"):
        if fields.has("sandbox_rules"):
            fields.note("sandbox", "has no effect without 'sandboxEnabled': true")
        return None
    parsed, names = fields.parsed, as_own("filesystem", "network")
    if fields.has("sandbox_rules"):
        inner = fields.inside("sandbox_rules", names, "VS Code")
    else:
        of_file = {"sandbox": parsed.document.value.get("sandbox")}
        whole = Fields(parsed, (), of_file, as_own("sandbox"), title="VS Code")
        inner = whole.inside("sandbox", names, "VS Code")
    files = inner.inside("filesystem", as_own(*_FILES), "VS Code")
    domains = inner.inside("network", as_own(*_DOMAINS), "VS Code")
    for name in _DOMAINS:
        if domains.names(name):
            domains.note(
                name, f"cannot be enforced, so it reaches no network: {_INSTEAD}, network included"
            )
    paths = {name: _paths(files, name) for name in _FILES}
    denied = (*paths["denyWrite"], *paths["denyRead"])
    write = tuple(_not_denied(files, "allowWrite", paths["allowWrite"], denied))
    # What is allowed within a directory that is denied may be read.
    inside = [each for each in paths["denyRead"] if not _holds(each.value, paths["allowRead"])]
    read = tuple(_not_denied(files, "allowRead", paths["allowRead"], inside))
    for number, each in enumerate(paths["denyRead"]):
        if _is_glob(each) or any(_overlap(each.value, one) for one in _SYSTEM):
            files.wrong(
                "denyRead",
                f"cannot be enforced, because programs of the system may be read there: {_INSTEAD}",
                number,
            )
    return _checked(files, GivenSandbox(read, write))


def _checked(fields: Fields, sandbox: GivenSandbox) -> GivenSandbox | None:
    try:
        sandbox.made()
    except ConfigError as error:
        fields.unusable(error.message)
        return None
    return sandbox


def _paths(fields: Fields, name: str) -> tuple[Expanded, ...]:
    base = fields.parsed.base
    return tuple(
        one._replace(value=path, shown=one.shown if one.used else path)
        for one in fields.words(name)
        for path in (os.path.abspath(base / os.path.expanduser(one.value)),)
    )


def _not_denied(
    fields: Fields, name: str, granted: Iterable[Expanded], denied: Iterable[Expanded]
) -> Iterator[Expanded]:
    """Yield the grants that no denial overlaps."""
    for number, one in enumerate(granted):
        if any(_is_glob(each) or _overlap(one.value, each.value) for each in denied):
            fields.note(
                name,
                f"[{number}] is not granted: what is denied in it cannot be enforced; {_INSTEAD}",
            )
        else:
            yield one


def _is_glob(path: Expanded) -> bool:
    return not _GLOB.isdisjoint(path.value)


def _holds(path: str, inner: tuple[Expanded, ...]) -> bool:
    """Whether all of ``inner`` that overlaps ``path`` lies in it."""
    return all(_is_in(one.value, path) or not _overlap(one.value, path) for one in inner)


def _overlap(one: str, other: str) -> bool:
    return _is_in(one, other) or _is_in(other, one)


def _is_in(path: str, directory: str) -> bool:
    real, within = os.path.realpath(path), os.path.realpath(directory)
    return any(
        one == two or one.startswith(two.rstrip(os.sep) + os.sep)
        for one, two in ((path, directory), (real, within))
    )


def read_login(outer: Fields, scopes: tuple[str, ...] | None) -> dict[str, Expanded] | None:
    """Return the arguments of ``OAuth``, with the scopes in one text; None without a login."""
    fields = outer.inside("oauth", _LOGIN, outer.parsed.program.title)
    listed_scopes = fields.raw("scopes")
    if isinstance(listed_scopes, str):
        scopes = tuple(listed_scopes.split())
    elif listed_scopes is not None:
        scopes = fields.names("scopes")
    uri = fields.text("redirect_uri")
    port = fields.raw("callback_port")
    if port is not None and not (type(port) is int and 0 < port < 65_536):
        fields.wrong("callback_port", "is not the number of a port")
    if port:
        address = f"http://localhost:{port}/callback"
        uri = Expanded(address, address)
    elif uri is not None and not _is_here(uri.value):
        fields.wrong(
            "redirect_uri",
            "does not lead to this machine, so another would get the login: write "
            "http://127.0.0.1:PORT/PATH",
        )
    login = {
        "client_id": fields.text("client_id") or outer.text("client_id"),
        "redirect_uri": uri,
        "scopes": None if scopes is None else Expanded(" ".join(scopes), " ".join(scopes)),
        "client_secret": fields.secret("client_secret"),
    }
    if fields.flag("enabled") is False:
        return None
    return {name: each for name, each in login.items() if each is not None}


def _is_here(redirect: str) -> bool:
    try:
        parts = urlsplit(redirect)
        return parts.scheme == "http" and is_loopback(parts.hostname or "")
    except ValueError:
        return False


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
