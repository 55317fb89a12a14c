"""Whatever secret is put into any of the usual notations, none of it is in the record."""

from __future__ import annotations

import base64
import html
import json
import random
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_client.audit import Redaction
from mcp_client.audit.options import redaction_of
from mcp_client.audit.redaction import REDACTED
from mcp_client.audit.secret_text import PATTERNS, is_plain, plain_members
from tests.support.properties import examples

redaction = Redaction()

CORE = "Zq7"
"""In every secret, so that what is left of one is recognized, and in nothing else."""

words = st.text(st.sampled_from("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNP23456789-_."), max_size=24)
spaced = st.text(
    st.sampled_from("abcdkxyzABCK23456789-_. ,&;:!?#%+*/()@$~|<>{}[]é漢\t"), max_size=24
)
escaped = st.text(st.sampled_from("abcABC123 ,;\"'\\/é漢\n\t&=<>"), max_size=24)
punctuated = st.text(st.sampled_from("abcABC123-_.,:!?#%+*/()@$~|"), max_size=24)


def around(text: st.SearchStrategy[str], core: str = CORE) -> st.SearchStrategy[str]:
    """Secrets that begin and end with something to recognize them by."""
    return st.builds(lambda middle: f"{core}{middle}{core}", text)


NAMES = st.sampled_from(
    [
        *(
            "password",
            "Password",
            "db_password",
            "DB_PASSWORD",
            "userPassword",
            "api_key",
            "apiKey",
        ),
        *("API-Key", "X-Api-Key", "token", "access_token", "clientSecret", "passphrase", "pwd"),
        *("AccountKey", "SharedAccessKey", "secret", "refreshToken", "private_key", "credentials"),
    ]
)

TEXTS: dict[str, tuple[st.SearchStrategy[str], Callable[[str, str], str]]] = {
    "name = word": (around(punctuated), lambda n, s: f"{n}={s} and more"),
    "name: word": (around(words), lambda n, s: f"set {n}: {s}"),
    "name = 'a b'": (around(spaced), lambda n, s: f"{n} = '{s}'"),
    'name: "a, b"': (around(spaced), lambda n, s: f'{n}: "{s}", user: "bob"'),
    "Python": (around(escaped), lambda n, s: f"{{{n!r}: {s!r}, 'user': 'bob'}}"),
    "JSON": (around(escaped), lambda n, s: json.dumps({"user": "bob", n: s})),
    "JSON in prose": (around(escaped), lambda n, s: f"sent {json.dumps({n: s})}, got 401"),
    "JSON in JSON": (around(escaped), lambda n, s: json.dumps({"body": json.dumps({n: s})})),
    "JSON cut off": (around(escaped), lambda n, s: json.dumps({n: s, "user": "bob"})[:-3]),
    "JSON in JSON cut off": (
        around(escaped),
        lambda n, s: json.dumps({"body": json.dumps({n: s, "more": "x"})})[:-3],
    ),
    "a list": (around(words), lambda n, s: f"{n.removesuffix('s')}s: [{s}, {s}]"),
    "a list in JSON": (
        around(escaped),
        lambda n, s: json.dumps({f"{n.removesuffix('s')}s": [s, s]}),
    ),
    "an object": (around(escaped), lambda n, s: json.dumps({n: {"value": [s]}})[:-1]),
    "an object cut off": (around(escaped), lambda n, s: json.dumps({n: [{"value": s}]})[:-4]),
    "name/value": (around(escaped), lambda n, s: json.dumps([{"name": n, "value": s}])),
    "value/name": (around(escaped), lambda n, s: json.dumps([{"value": s, "key": n}])),
    "name/value in prose": (
        around(escaped),
        lambda n, s: f"bad field {{'name': {n!r}, 'value': {s!r}}}",
    ),
    "YAML pair": (around(words), lambda n, s: f"env:\n- name: {n}\n  value: {s}\n- name: X"),
    "a flag": (around(punctuated), lambda n, s: f"run --{n.replace('_', '-')} {s} -v"),
    "a flag with =": (around(punctuated), lambda n, s: f"run --{n}={s} -v"),
    "a quoted flag": (around(spaced), lambda n, s: f'run --{n} "{s}" -v'),
    "an environment": (around(spaced), lambda n, s: f"export {n.upper()}='{s}'; run"),
    "a query": (around(words), lambda n, s: f"https://example.com/a?{n}={s}&page=2"),
    "a form": (around(words), lambda n, s: f"-d 'user=bob&{n}={s}' x"),
    "an element": (around(words), lambda n, s: f"<a><{n}>{s}</{n}></a>"),
    "a header": (around(spaced), lambda n, s: f"GET / HTTP/1.1\nX-{n}: {s}\nAccept: */*"),
    "a connection string": (
        around(st.text(st.sampled_from("abcABC123 -_.!?#%+*/()@$~|"), max_size=20)),
        lambda n, s: f"Server=tcp:x;{n}={s};Encrypt=True",
    ),
    "its end": (
        around(st.text(st.sampled_from("abcABC123 -_.!?#%+*/()@$~|"), max_size=20)),
        lambda n, s: f"Server=tcp:x;User Id=a;{n}={s}",
    ),
}
LOOKS: dict[str, tuple[st.SearchStrategy[str], Callable[[str], str]]] = {
    "Cookie": (around(spaced), lambda s: f"Host: x\r\nCookie: a=1; sid={s}\r\nAccept: */*"),
    "Set-Cookie": (around(spaced), lambda s: f"Set-Cookie: sid={s}; Path=/"),
    "Cookie, quoted": (
        around(st.text(st.sampled_from("abc123;=, "), max_size=20)),
        lambda s: f"curl -H 'Cookie: a={s}' https://example.com",
    ),
    "Authorization": (around(spaced), lambda s: f"AUTHORIZATION: Digest username={s}"),
    "authorization": (around(words), lambda s: f"authorization: Bearer {s}"),
    "curl -u": (around(words), lambda s: f"curl -u ana:{s} https://example.com"),
    "curl -u quoted": (
        around(st.text(st.sampled_from("abc123 ,;:!?#"), max_size=20)),
        lambda s: f"curl -s --user 'ana:{s}' https://example.com",
    ),
    "curl -uX": (around(words), lambda s: f"curl -uana:{s} https://example.com"),
    "the user of a URL": (around(words), lambda s: f"git clone https://{s}@example.com/a.git"),
    "the password of a URL": (
        around(st.text(st.sampled_from("abc123-_.@:/!$&()*+,;="), max_size=20)),
        lambda s: f"postgres://ana:{s}@db.example.com:5432/x?ssl=1",
    ),
    "no user": (around(words), lambda s: f"redis://:{s}@cache:6379/0"),
    "AccountKey": (
        around(st.text(st.sampled_from("abcABC123+/"), max_size=60)),
        lambda s: f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={s}==;EndpointSuffix=x",
    ),
    "Slack's webhook": (around(words), lambda s: f"https://hooks.slack.com/services/T0/B0/{s}"),
    "Discord's": (around(words), lambda s: f"https://discord.com/api/webhooks/12/{s}"),
    "Teams'": (around(words), lambda s: f"https://x.webhook.office.com/webhookb2/{s}/Incoming"),
    "another": (around(words), lambda s: f"POST https://ci.example.com/webhook/{s} 200"),
    "Telegram's": (
        around(st.text(st.sampled_from("abcABC123_-"), min_size=20, max_size=30)),
        lambda s: f"https://api.telegram.org/bot123456789:{s}/sendMessage",
    ),
    ".npmrc": (around(words), lambda s: f"//packages.example/:_authToken={s}"),
    ".netrc": (around(punctuated), lambda s: f"machine x.com login ana password {s}"),
    "docker login": (around(words), lambda s: f"docker login -u ana -p {s} registry.example.com"),
    "mysql": (around(words), lambda s: f"mysql -h db -u root -p{s} shop"),
    "a pair": (around(escaped), lambda s: f"headers = [('Authorization', {s!r}), ('A', 'b')]"),
    "a plist": (
        around(words),
        lambda s: f"<dict><key>Password</key><string>{s}</string></dict>",
    ),
    "PEM": (
        around(st.text(st.sampled_from("abcABC123+/=\n"), max_size=200)),
        lambda s: f"x -----BEGIN EC PRIVATE KEY-----\n{s}\n-----END EC PRIVATE KEY----- y",
    ),
}
ALNUM = st.text(
    st.sampled_from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
    min_size=36,
    max_size=48,
)
PREFIXES = [
    *("sk-", "sk-proj-", "sk-ant-api03-", "sk_live_", "sk_test_", "rk_live_", "whsec_", "ghp_"),
    *("gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "xapp-1-", "hf_"),
    *("AIza", "ya29.", "npm_", "pypi-", "SG.", "shpat_", "dop_v1_", "GOCSPX-", "hvs.", "glsa_"),
    *("gsk_", "xai-", "lin_api_", "AGE-SECRET-KEY-1", "eyJhbGciOiJIUzI1NiJ9.eyJ", "Bearer "),
]
WRAPPINGS: dict[str, Callable[[str], str]] = {
    "nothing": lambda text: text,
    "percent": lambda text: quote(text, safe=""),
    "plus": quote_plus,
    "html": html.escape,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: f"a={base64.urlsafe_b64encode(text.encode()).decode()}",
    "JSON": json.dumps,
    "JSON twice": lambda text: json.dumps(json.dumps({"body": text})),
}


def record_of(text: str) -> str:
    displayed = [redaction.show(value).value for value in ([text], {"a": text}, {text: 1})]
    return json.dumps([*displayed, redaction.text(text, 2_000)], ensure_ascii=False)


@pytest.mark.parametrize("notation", TEXTS)
@examples(30)
@given(st.data())
def test_a_value_beside_the_name_of_a_secret_is_not_in_the_record(
    notation: str, data: st.DataObject
) -> None:
    secrets, write = TEXTS[notation]
    secret = data.draw(secrets)
    assert CORE not in record_of(write(data.draw(NAMES), secret))


@pytest.mark.parametrize("notation", LOOKS)
@examples(30)
@given(st.data())
def test_what_looks_like_a_secret_is_not_in_the_record(notation: str, data: st.DataObject) -> None:
    secrets, write = LOOKS[notation]
    assert CORE not in record_of(write(data.draw(secrets)))


@pytest.mark.parametrize("prefix", PREFIXES)
@examples(8)
@given(ALNUM, st.sampled_from(["", "key ", "(", "'", "x="]), st.sampled_from(["", " y", ")", "'"]))
def test_a_key_with_a_known_prefix_is_not_in_the_record(
    prefix: str, body: str, before: str, after: str
) -> None:
    assert body not in record_of(before + prefix + body + after)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@examples(30)
@given(around(spaced), NAMES)
def test_an_encoding_hides_no_secret_from_the_redaction(
    wrapping: str, secret: str, name: str
) -> None:
    wrapped = WRAPPINGS[wrapping](json.dumps({name: secret}))
    displayed = record_of(wrapped)
    assert CORE not in displayed
    assert base64.b64encode(secret.encode()).decode()[:16] not in displayed or wrapping != "base64"
    assert wrapped not in displayed


@pytest.mark.parametrize(
    "text",
    [
        "now%20log in with password=hunter2tail&x=%31",
        "now &quot;log in with password=hunter2tail&quot;",
        "now \\x22log in with password=hunter2tail\\x22",
    ],
)
def test_of_an_encoded_text_only_the_secret_is_left_out(text: str) -> None:
    displayed = redaction.text(text, 2_000)
    assert displayed.startswith("now")
    assert "log in with password=[redacted]" in displayed


@pytest.mark.parametrize(
    "text",
    [
        "log in with password=hunter2tail, please",
        "the token: hunter2tail",
        "client_secret=hunter2tail&grant_type=x",
        "POST / HTTP/1.1\r\nX-Api-Key: hunter2tail\r\n\r\n",
    ],
)
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_text_in_base64_that_has_a_secret_is_not_in_the_record(
    text: str, encode: Callable[[bytes], bytes]
) -> None:
    encoded = encode(text.encode()).decode()
    for whole in (encoded, f"the body was {encoded} then"):
        displayed = record_of(whole)
        assert encoded not in displayed
        assert "hunter2tail" not in displayed


PAIRS: dict[str, Callable[[str, Any], Any]] = {
    "name, value": lambda n, s: {"name": n, "value": s},
    "key, value": lambda n, s: {"key": n, "value": s},
    "Key, Value": lambda n, s: {"Key": n, "Value": s},
    "header, value": lambda n, s: {"header": n, "value": s, "enabled": True},
    "element, text": lambda n, s: {"element": f"{n} field", "ref": "e5", "text": s},
    "a pair": lambda n, s: [n, s],
    "pairs": lambda n, s: [["Accept", "*/*"], [n, s]],
    "a flat list": lambda n, s: ["Accept", "*/*", n, s],
    "a pair of a tuple": lambda n, s: ((n, s),),
    "--name value": lambda n, s: ["run", f"--{n}", s, "-v"],
    "--name=value": lambda n, s: ["run", f"--{n}={s}", "-v"],
    "-u": lambda n, s: ["curl", "-u", f"ana:{s}", "https://example.com"],
    "-H": lambda n, s: ["curl", "-H", f"Authorization: {s}"],
    "a member": lambda n, s: {"a": [{n: s}]},
    "members": lambda n, s: {n: {"a": [s, {"b": s}]}},
    "plural": lambda n, s: {f"{n.removesuffix('s')}s": [s]},
    "tokens": lambda n, s: {"tokens": [s]},
    "tokens by name": lambda n, s: {"tokens": {"ana": s}},
}
plain_secrets = around(st.text(st.sampled_from("abcABC123 ,;:!?\"'\\é漢"), max_size=24))


@pytest.mark.parametrize("pair", PAIRS)
@examples(30)
@given(NAMES, plain_secrets)
def test_a_secret_in_a_pair_is_not_in_the_record(pair: str, name: str, secret: str) -> None:
    displayed = redaction.show({"x": PAIRS[pair](name, secret)})
    assert CORE not in json.dumps(displayed.value, ensure_ascii=False)
    assert displayed.pointers


@examples(200)
@given(
    around(escaped),
    st.sampled_from(
        [
            *(str, json.dumps, lambda s: json.dumps(json.dumps({"a": s})), repr, ascii, quote),
            *(lambda s: quote(s, safe=""), quote_plus, html.escape, lambda s: s.encode().hex()),
            *(lambda s: json.dumps(s).replace("/", "\\/"), lambda s: repr({"a": [s]})),
            *(lambda s: base64.b64encode(s.encode()).decode(), lambda s: f"{s[:-2]}..."),
            lambda s: base64.b64encode(f"ana:{s}".encode()).decode(),
            lambda s: base64.urlsafe_b64encode(f"a:{s}".encode()).decode(),
        ]
    ),
)
def test_a_secret_of_the_arguments_is_not_in_what_others_state_in_any_spelling(
    secret: str, spell: Callable[[str], str]
) -> None:
    secret = f"aB3{secret}dE5fG"
    displayed = redaction.show({"password": secret})
    text = redaction.about(f"no user has {spell(secret)} here", 500, displayed.hidden)
    assert CORE not in text
    reported = spell(secret)
    assert reported[4:-4] not in text
    assert "no user has" in text


def test_a_secret_found_by_its_shape_is_left_out_of_other_texts() -> None:
    displayed = redaction.show({"command": "curl -u ana:hunter2-x https://example.com"})
    assert "hunter2" not in redaction.about("401 for ana:hunter2-x", 500, displayed.hidden)


def test_a_secret_longer_than_what_is_looked_at_is_left_out_as_far_as_it_goes() -> None:
    secret = "".join(f"{number:05d}" for number in range(4_000))
    text = redaction.about(f"bad: {secret}", 500, [secret])
    assert "00001" not in text


@examples(100)
@given(plain_secrets)
def test_what_a_function_left_out_of_the_arguments_is_left_out_of_all_texts(secret: str) -> None:
    own = redaction_of(lambda arguments: {**arguments, "iban": "***"})
    displayed = own.show({"iban": secret, "city": "Oslo in Norway"})
    assert displayed.value == {"iban": "***", "city": "Oslo in Norway"}
    reported = own.about(
        f"no account {json.dumps(secret)} in Oslo in Norway", 500, displayed.hidden
    )
    assert CORE not in reported
    assert "Oslo in Norway" in reported


def test_a_function_that_takes_texts_judges_the_texts_about_a_call() -> None:
    def own(value: Any) -> Any:
        return re.sub(r"\d{6,}", "#", value) if isinstance(value, str) else {}

    assert redaction_of(own).about("order 12345678 failed", 500, []) == "order # failed"


def test_all_arguments_are_left_out_of_texts_where_a_function_raises() -> None:
    own = redaction_of(lambda value: 1 / 0)
    displayed = own.show({"city": "Oslo"})
    assert displayed.value == "[unreadable: ZeroDivisionError]"
    assert own.about("no such city: Oslo", 500, displayed.hidden) == f"no such city: {REDACTED}"


def test_the_record_names_where_something_was_left_out() -> None:
    value = {"a/b": [{"password": "x1"}, "token=abcdef"], "c": "plain", "d~": {"pin": 1234}}
    assert redaction.show(value).pointers == ["/a~1b/0/password", "/a~1b/1", "/d~0/pin"]


def test_the_names_a_host_adds_count_in_strings_too() -> None:
    own = Redaction(keys={"iban"}, patterns=[])
    assert own.text("iban: DE12 and password: shown") == f"iban: {REDACTED} and password: shown"
    assert own.show({"a": "--iban DE12"}).value == {"a": f"--iban {REDACTED}"}


ORDINARY = [
    *("New York", "max_tokens: 100", "tokens=5", "total tokens = 1,234", "tokenizer: gpt2"),
    *("author: Ana", "key: value", "keyboard=US", "pass: 3, fail: 0", "compass: north", "spin: 3"),
    *("secretary: Bob", "primary_key=id", "foreign key: x", "monkey=1", "the token count: 5"),
    *("https://example.com:8080/a@b?c=d", "ssh://git@github.com/x/y.git", "git@github.com:x/y.git"),
    *("ana@example.com", "2026-07-28T09:00:00.000Z", "C:\\Users\\ana", "/usr/bin/python -u x.py"),
    *("Token ring networks", "basic auth is disabled", "a password-reset page", "--tokenizer gpt2"),
    *("--max-tokens 100", "--author Ana", "docker run -p 8080:80 nginx", "ssh -p 22 host"),
    *("SELECT a, b FROM t WHERE x = 'y'", "if a == b: return c", "x => x + 1", "a::b::c", "1:2:3"),
    *(
        "sha256:d670460b4b4aece5915caf5c68d12f560a9fe3e4d670460b4b4aece5915caf5c",
        "100% sure & done",
    ),
    *("550e8400-e29b-41d4-a716-446655440000", "https://example.com/books/chapter", "R&D; sales"),
    *('{"location": "Oslo", "units": "metric"}', "[1, 2, 3]", '{"name": "Ana", "value": 3}'),
    *('[{"name": "color", "value": "red"}]', '["a", "b"]', "name: Ana\nvalue: 3", "<b>bold</b>"),
    *("please enter your password", "The secret of success is work", "Accept: */*\nHost: x"),
    *(
        "https://hookah.example.com/menu",
        "risk-assessment-of-the-whole-year",
        "SKU 12345",
        "T-shirt",
    ),
    *("password: null", "token: none", '{"password": ""}', "npm_config_registry_of_the_company"),
    *("aGVsbG8gd29ybGQsIHRoaXMgaXMgcGxhaW4=", "hello%20world%2C%20this", "user=ana, city=Oslo"),
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert redaction.text(text) == text
    assert redaction.show({"text": text, "list": [text, "next"]}).value == {
        "text": text,
        "list": [text, "next"],
    }
    assert redaction.show(text).pointers == []


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 100, "tokens": 5, "completion_tokens": 7, "maxTokens": "100"},
        {"name": "Ana", "value": 3},
        {"key": "color", "value": "red"},
        ["ls", "-l", "--color", "auto"],
        ["id", "name", "email"],
        {"author": "Ana", "passenger": "Bo", "monkey": 1, "tokens_used": {"in": 1, "out": 2}},
        {"headers": {"Accept": "*/*", "Content-Type": "application/json"}},
        {"element": "Search field", "ref": "e5", "text": "weather in Oslo"},
    ],
)
def test_ordinary_arguments_are_shown_as_they_are(value: Any) -> None:
    assert redaction.show(value).value == value


@examples(80)
@given(st.text(st.sampled_from("abcdefg hijklmno .,!?()"), max_size=300))
@example("It is so. And (perhaps) not!")
def test_prose_is_shown_as_it_is(text: str) -> None:
    assert redaction.text(text) == text


# Pieces of what the patterns find, so that many texts are close to a secret.
PIECES = (
    *(
        "bearer",
        "Bearer",
        "SG",
        "hvs",
        "ya29",
        "xoxe",
        "dp",
        "pt",
        "eyJ",
        "AKIA",
        "npm",
        "sk",
        "SK",
    ),
    *(
        "login",
        "docker",
        "me",
        "password",
        "Password",
        "PASSWORD",
        "pa\u017fsword",
        "p",
        "curl",
        "u",
    ),
    *("abc", "a1B2c3", "0123456789", "congratulations", "A" * 15, "M" * 15, "Zq7", "\u00e9t\u00e9"),
)
JOINS = (" ", " ", ".", ".", ". ", "...", ", ", "(", ") ", "! ", "?")


def test_no_pattern_finds_anything_in_text_that_is_taken_for_ordinary_words() -> None:
    draw = random.Random(1)
    patterns = [re.compile(pattern) for pattern in PATTERNS]
    taken = 0
    for _ in range(4_000):
        pieces = [draw.choice(PIECES) + draw.choice(JOINS) for _ in range(draw.randint(1, 8))]
        text = "".join(pieces) + draw.choice(("", *PIECES))
        members = plain_members(json.dumps({"note": text}))
        assert not members or is_plain(text)
        if is_plain(text):
            taken += 1
            assert not any(pattern.search(text) for pattern in patterns), text
    assert taken > 400


@pytest.mark.parametrize(
    "text",
    [
        "bearer Zq7aaaaaaaaaaaa.bbbbbbbb",
        "send Bearer Zq7defghij.klmnopqrs.tuv now",
        "the key SG.Zq7defghijklmn.abcdefghijk works",
        "the key hvs.Zq7defghij.klmnopqrst works",
        "login bob Password Zq7hunter",
        "login bob PASSWORD Zq7hunter",
    ],
)
def test_a_key_of_short_words_is_not_in_the_record(text: str) -> None:
    for value in (text, {"note": text}, [text]):
        assert CORE not in json.dumps(redaction.show(value).value)
    assert not redaction.shows(json.dumps({"note": text}, separators=(",", ":")))
