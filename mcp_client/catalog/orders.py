"""Distinguish text that tries to instruct a model from text that documents a tool.

Documentation has imperatives, too: "you must call X first", "ask the user for the id", "do not call
this more than 3 times". A sentence counts as an order only if one of these is in it:

- earlier instructions of the model are to be ignored
- something is to be hidden from the person, or done behind the person's back
- a secret, a sensitive file or personal data is to be passed on
- the conversation, or the model's own instructions, are to be passed on
- something is to be sent to an address that the text names
- calls of other tools are to be changed, copied or left out

An order in which to call tools does not count. The words are English. Each sentence is examined
alone, in pieces of
``_MAX_SENTENCE_CHARS``, so the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial

from ..runtime.safe_text import is_invisible
from .order_phrases import NEGATIONS, PHRASES
from .order_words import (
    ADDRESS,
    CALL_WITH,
    CONVERSATION,
    EXAMPLE,
    FILE,
    GIVE,
    GIVE_IT,
    GIVEN,
    MAILBOX,
    MANY,
    MUST,
    NEGATED,
    OTHER_TOOL,
    PERSON,
    READ,
    READ_ONLY,
    SECRET,
    SECRETS,
    SEEK,
    SEND,
    TOOL,
)

__all__ = ["order_in"]

_MAX_NAME_CHARS = 128
_NAME = re.compile(r"(?!.*content)[A-Za-z0-9_.-]*", re.I)
"""The name of a parameter; one with the word ``content`` may be an order too."""
_MAX_SENTENCE_CHARS = 400
_OVERLAP_CHARS = 100
_BREAK = re.compile(r"(?<=\S[.!?])[\"')\]]*\s+|\n\s*\n|\n\s*(?=(?:[-*\u2022#]|\d{1,3}[.)])\s)")


def order_in(text: str) -> str | None:
    """Return the words that give the model an order, or None if there are none."""
    if len(text) <= _MAX_NAME_CHARS and _NAME.fullmatch(text):
        return None
    plain = text.lower()
    if not (plain.isascii() and plain.isprintable()):
        # Invisible characters between its letters do not keep a model from reading an order.
        plain = "".join([c for c in plain if c in "\n\t" or not is_invisible(c)])
        plain = plain.replace("\u2019", "'")
    flat = " ".join(plain.split())
    phrases = [phrase for phrase in PHRASES if _has_one(phrase[0], flat)]
    rules = [rule for rule in _RULES if _has_one(rule[0], flat)]
    before = ""
    for sentence in _sentences(plain) if phrases or rules else ():
        for words, pattern in phrases:
            match = _find(pattern, sentence) if _has_one(words, sentence) else None
            if match:
                return match[0]
        claim = sentence
        if _has_one(NEGATIONS, sentence):
            claim = _compiled(NEGATED).sub("", sentence)
        for words, is_broken in rules:
            if _has_one(words, claim) and is_broken(claim):
                return sentence
        if _is_continued(before, claim):
            return sentence
        before = claim if _has_one(_FILE_WORDS, claim) else ""
    return None


def _sentences(text: str) -> Iterator[str]:
    for part in _BREAK.split(text):
        sentence = " ".join(part.split())
        for at in range(0, len(sentence), _MAX_SENTENCE_CHARS):
            yield sentence[max(0, at - _OVERLAP_CHARS) : at + _MAX_SENTENCE_CHARS]


def _has_one(words: tuple[str, ...], text: str) -> bool:
    """Whether one of ``words`` is in ``text``: most texts need no more than this."""
    for word in words:  # noqa: SIM110 - a generator would take three times as long
        if word in text:
            return True
    return False


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _find(pattern: str, text: str) -> re.Match[str] | None:
    return _compiled(pattern).search(text)


# ------------------------------------------------------ what is together in a sentence

_DUE = rf"\b{MUST}\b"
_IS_GIVEN = rf"\b{GIVEN}\b"


def _is_given(text: str) -> bool:
    return bool(_find(_DUE, text) and _find(_IS_GIVEN, text))


_FILE_WORDS = tuple(
    """
    ~/ ~\\ home /root /users profile% .ssh .aws .gnupg .kube .netrc .npmrc .pypirc .pgpass .env
    .git-cred _history id_ /etc/ mcp.json mcp_config claude_desktop authorized_keys wallet.dat
    credentials. confidential restricted classified secrets file
    """.split()  # noqa: SIM905 - a list of words is read as words
)
_READS = rf"\b(?:{READ}|contents?)\b"
_READS_FIRST = (
    rf"\b(?:{MUST}|first|please) (?:\w+ ){{0,2}}{READ_ONLY}\b"
    rf"|\bbefore (?:you )?(?:us|call|runn?)(?:e|ing)?\b.*\b{READ_ONLY}\b"
    rf"|\b(?:{GIVE}|fill)\b.{{0,30}}\bcontents?\b|\b(?:{MUST}|unless)\b.*\bcontents?\b"
    r"|\bcontents?\b.*\b(?:(?:required|needed|expected) (?:as|in|for)|argument|parameter|field)\b"
    rf"|\b{GIVE}\b.*\bcontents? of (?:any|all|every)\b"
)
_GIVES_CONTENTS = (
    rf"\bbefore (?:you )?(?:us|call)(?:e|ing)? (?:this|{OTHER_TOOL})\b.*(?:{GIVE}\b|{CALL_WITH})"
    r" (?:its|the|their) (?:\w+ )?contents?\b"
)


def _passes_on_a_file(text: str) -> bool:
    if not _find(FILE, text):
        return "before" in text and _find(_GIVES_CONTENTS, text) is not None
    if _find(_READS, text) and (_find(GIVE_IT, text) or _is_given(text)):
        return True
    return _find(_READS_FIRST, text) is not None


def _is_continued(before: str, claim: str) -> bool:
    """Whether ``claim`` passes on the sensitive file that the sentence ``before`` reads."""
    return bool(before and _find(GIVE_IT, claim) and _find(FILE, before) and _find(_READS, before))


_GIVES = rf"\b{GIVE}\b"
_GIVES_OR_CALLS = rf"{_GIVES}|{CALL_WITH}"
_NAMES_A_SECRET = rf"\b{SECRET}"
_SECRET_OF_SOMEONE = (
    rf"\b(?:user|human|person|customer)(?:(?:'s|s'|s')(?: \w+){{0,2}}?)? {SECRET}"
    rf"|\b{SECRET} (?:of|from|belonging to) the (?:user|human|person|customer|[\w-]+ tool)\b"
    rf"|\b{SECRET} (?:in|from) (?:the|this) (?:conversation|chat)\b"
    r"|\b(?:any|all|every) (?:\w+ ){0,2}?(?:passwords|credentials|(?:api|access|private|ssh)"
    rf" (?:keys?|tokens?))\b|\b{SECRET}.{{0,20}} you (?:have|know|find|see|saw|can)\b"
    rf"|\b{PERSON} (?:mentions?|types?|enters?|says?|shares?|pastes?) (?:an? |any |their |the )?"
    rf"{SECRET}|\bvalues? of (?:the )?(?:environment variable|\w+_(?:api_key|token|secret))"
)
_SEEKS_SECRETS = (
    rf"(?:\b{SEEK}\b.{{0,60}}\b{SECRETS}|\b(?:grep|rg)\b.{{0,60}}\b(?:tokens?|keys?|secrets?)\b)"
    rf".*{GIVE_IT}"
    rf"|\b{SEEK}\b.{{0,40}}\benvironment variables\b.{{0,40}}\b(?:parameter|argument|field)\b"
    rf"|\b(?:retrieve|{SEEK[3:-1]})\b.{{0,40}}\b{SECRET} from (?:the |your )?(?:environment"
    rf"|keychain|browser|clipboard|disk|file ?system|home|conversation|memory)\b.*{GIVE_IT}"
)


_GIVES_SECRET = rf"{_GIVES}.{{0,80}}\b{SECRET}"


def _passes_on_a_secret(text: str) -> bool:
    if not _find(_NAMES_A_SECRET, text):
        return False
    if _find(_SEEKS_SECRETS, text):
        return True
    if not _find(_SECRET_OF_SOMEONE, text):
        return False
    for pattern in (_GIVES_SECRET, GIVE_IT, CALL_WITH):
        if _find(pattern, text):
            return True
    return _is_given(text)


_IS_AN_OPTION = r"\bin the (?:response|result|output|export)\b|\bwhether\b|\bif true\b"
_ALL_CONTENTS = rf"{_GIVES}.{{0,20}}\bcontents? of (?:every|all|any)\b.*\b(?:argument|parameter)\b"
_TOOLS_OF_THE_MODEL = r"\btools? .{0,40}(?:available to you|you have|you can (?:use|call))\b"
_GIVES_THEM = rf"\b{GIVE} (?:it|them|their|its)\b"


def _passes_on_the_conversation(text: str) -> bool:
    if _find(_IS_AN_OPTION, text):
        return False
    if _find(CONVERSATION, text):
        return bool(_find(_GIVES_OR_CALLS, text) or _is_given(text))
    if _find(_ALL_CONTENTS, text):
        return True
    return bool(_find(_TOOLS_OF_THE_MODEL, text) and _find(_GIVES_THEM, text))


_EACH_TIME = rf"\b(?:{MUST}|whenever|(?:every|each|any) ?time|when (?:you )?(?:call|us|send)\w*)\b"
_GOES_TO_MAILBOX = (
    rf"\b(?:sent|forwarded|copied|routed|delivered)\b.{{0,60}}{MAILBOX}"
    rf"|{MAILBOX}.{{0,40}}\b(?:b?cc|recipients?)\b|\bb?cc\b.{{0,40}}{MAILBOX}"
)
_CHANGED_TO_MAILBOX = rf"\b(?:change|replace|swap|redirect)\b.{{0,200}}{MAILBOX}"
_SENDS_TO_ADDRESS = rf"{SEND}.{{0,200}}{ADDRESS}"


def _sends_to_an_address(text: str) -> bool:
    if not _find(ADDRESS, text) or _find(EXAMPLE, text):
        return False
    if _find(_EACH_TIME, text) and _find(_GOES_TO_MAILBOX, text):
        return True
    if _find(_CHANGED_TO_MAILBOX, text):
        return True
    return bool(_find(_SENDS_TO_ADDRESS, text) and _find(MANY, text))


_PARTS = (
    r"(?:results?|outputs?|contents?|arguments?|parameters?|responses?|inputs?|descriptions?)\b"
)
_GIVES_PARTS = rf"\b{GIVE} (?:its|their) (?:\w+ )?{_PARTS}"
_GIVES_COPY = rf"\b{GIVE} a copy of (?:\w+ )?{_PARTS}"
_WHEN_CALLED = (
    r"\b(?:when|whenever|any ?time|each time|every time|if)\b.{0,80}\b(?:called|used|invoked"
    r"|you (?:use|call|invoke))\b|\b(?:before|after) [a-z]+_[a-z_]+\b"
)
_IS_CHANGED = (
    r"\b(?:change|replace|swap|alter|rewrite|redirect|substitute)\b.{0,40}\b(?:recipients?"
    r"|address(?:es)?|accounts?|iban|numbers?|amounts?|wallets?|destination|payee)\b"
    r"|\balso (?:add|send|include|append|put|insert|write|copy)\b"
)


def _changes_other_calls(text: str) -> bool:
    if not _find(TOOL, text):
        return False
    if _find(_GIVES_PARTS, text) and _find(OTHER_TOOL, text):
        return True
    if _find(_GIVES_COPY, text):
        return True
    return bool(_find(_WHEN_CALLED, text) and _find(_IS_CHANGED, text))


_PASSES_ON_THE_PERSON = (
    rf"\b{MUST}\b.{{0,20}}\b(?:{GIVE}|{GIVEN}|start with|contain)\b.{{0,40}}\buser(?:'s|s'|'s own)"
    r" (?:\w+ ){0,2}?(?:name|e-?mails?|address(?:es)?|phone(?: number)?|location|files?|documents?"
    r"|messages?|history|photos?|contacts?|calendar)\b"
)
_PUBLISHES = rf"{_GIVES}.{{0,60}}\bprivate\b.{{0,60}}\b(?:public|external)\b"

_RULES: tuple[tuple[tuple[str, ...], Callable[[str], object]], ...] = (
    ((*_FILE_WORDS, "content"), _passes_on_a_file),
    (
        (
            "key",
            "token",
            "pass",
            "secret",
            "credential",
            "pin",
            "cvv",
            "phrase",
            "card ",
            "cookie",
            "env",
        ),
        _passes_on_a_secret,
    ),
    (
        ("conversation", "chat", "dialog", "message", "the user", "you know", "content", "tool"),
        _passes_on_the_conversation,
    ),
    (("@", "+", "http", "0x", "account", "iban"), _sends_to_an_address),
    (("tool", "_"), _changes_other_calls),
    (("user",), partial(_find, _PASSES_ON_THE_PERSON)),
    (("private",), partial(_find, _PUBLISHES)),
)
"""Each with words of which one is in every sentence that breaks the rule."""
