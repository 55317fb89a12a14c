"""The rules for sentences that give a model an order, and the words that orders are made of.

A rule finds words that make an order only together. Words and rules are patterns, in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

__all__ = [
    "FILE_WORDS",
    "GIVE",
    "MUST",
    "NEGATED",
    "NOT",
    "PERSON",
    "RULES",
    "THE",
    "THIS",
    "TOOL",
    "compiled",
    "find",
    "has_one",
    "is_continued",
    "words_of",
]

NOT = (
    r"(?:do not|don'?t|never|must not|mustn'?t|should not|shouldn'?t|may not|avoid|refrain from"
    r"|(?:no|without) need to|need not|not necessary to|without|instead of"
    r"|not (?:allowed|permitted|supposed|going) to|forbidden to|under no circumstances|in no case)"
)
MUST = r"(?:must|has to|have to|needs? to|should|always|shall|(?:is|are) (?:required|obliged) to)"
THE = r"(?:the |your |any |a )?"
PERSON = (
    r"(?:users?|humans?|persons?|people|anyone|anybody|someone|somebody|operators?|developers?"
    r"|customers?|owners?)\b"
)
THIS = (
    r"(?:this|it|that|these|them|anything|(?:the|any) (?:call|argument|parameter|step|request"
    r"|side ?note|side effect|copy|instruction|file|transfer|process)s?"
    r"|(?:the |its )?(?:contents?|values?|output|result) of (?:this|it|these))\b"
)
_KEY_KIND = (
    r"(?:(?:api|access|private|secret|ssh|gpg|bearer|encryption|auth\w*)[ _-]?(?:key|token)s?)"
)
SECRET = (
    rf"(?:{_KEY_KIND}|passwords?|passphrases?|secrets?|credentials?|tokens?|pins?|cvv|(?:seed"
    r"|recovery) phrases?|card numbers?|cookies|environment variables|env vars|\w+_(?:api_key"
    r"|token|secret))\b"
)
SECRETS = (
    rf"(?:{_KEY_KIND}|passwords|passphrases|secrets|credentials|environment variables|env vars"
    r"|(?:seed|recovery) phrases?)\b"
)
FILE = (
    r"(?:(?:~|/home/[\w.-]+|/root|/users/[\w.-]+|\$\{?home\}?|%userprofile%)[/\\]\.\w|(?<![\w-])"
    r"\.(?:ssh|aws|gnupg|kube|netrc|npmrc|pypirc|pgpass|env|git-credentials|bash_history"
    r"|zsh_history)\b(?!\.(?:example|sample|template))|(?<![a-z])id_(?:rsa|dsa|ecdsa|ed25519)\b"
    r"|/etc/(?:passwd|shadow|sudoers)|\bmcp(?:_config)?\.json\b|\bclaude_desktop_config"
    r"|\bauthorized_keys\b|\bwallet\.dat\b|\bcredentials\.\w|\b(?:confidential|restricted"
    r"|classified) (?:resource|document|file|record)|\bcompany secrets|\b(?:any|all|every|other)"
    r" (?:\w+ )?(?:config(?:uration)?|credentials?|key|private|personal|hidden) files?\b|\bfiles"
    r" in (?:the|your) (?:user's )?home (?:directory|folder))"
)
READ = r"(?:read\w*|open|access|fetch|get|retrieve|load|collect|gather|cat|copy|extract|dump|view)"
READ_ONLY = r"(?:read|open|fetch|load|collect|cat|copy|dump|extract)"
SEEK = r"(?:search|scan|look|find|collect|gather|harvest|extract|fetch|steal|list|read|get|dump)"
GIVE = (
    r"(?:pass|send|include|append|attach|provide|put|place|add|insert|forward|upload|submit|paste"
    r"|post|transmit|share|supply|copy|leak|encode|enter|embed|write|give)"
)
GIVEN = (
    r"(?:passed|sent|included|appended|attached|provided|inserted|forwarded|uploaded|submitted"
    r"|pasted|posted|shared|copied)"
)
IT = (
    r"(?: \w+)? (?:it|its|them|their|that|what|everything|all|the (?:\w+ )?(?:contents?|text|data"
    r"|file|keys?|output|results?)(?! (?:path|file|name|id)))\b"
)
GIVE_IT = (
    rf"\b(?:{GIVE}{IT}|return (?:it|them|the \w+) (?:in|as|with|through) .{{0,30}}(?:field"
    r"|parameter|argument|note|answer|response|reply)\b"
    r"|(?:it|them|its contents?|their contents?|the (?:output|results?)) (?:in|into|as|to|through)"
    r" (?:the |an? )?[\w'\"`]+ (?:parameter|argument|field)\b"
    r"|use (?:its|their) (?:values?|contents?)\b|(?:report|hand over) (?:it|them) (?:with|to|in)\b)"
)
CALL_WITH = r"\b(?:call|use|invoke|run)(?:ed|d)?\b.{0,60}\bwith\b"
OTHER_TOOL = (
    r"(?:another|any other|other|all other|all the other|every other|each other) (?:\w+ )?tools?'?"
)
TOOL = rf"(?:\b{OTHER_TOOL}|\bthe (?!same)[\w-]+ tool\b|\b[a-z]+_[a-z_]+\b)"
MAILBOX = r"(?:[\w.+-]+@[\w-]+\.\w|\+\d{8,15}\b|\b0x[0-9a-f]{40}\b|\b[a-z]{2}\d{2}(?: ?\w{4}){2,7})"
ADDRESS = rf"(?:{MAILBOX}|https?://\w)"
SEND = r"\b(?:send|forward|upload|transfer|submit|e-?mail|mail|redirect|post|deliver|copy)\b"
MANY = (
    r"\b(?:(?:all|every|each|any) (?:\w+ )?(?:e-?mails?|messages?|files?|payments?|transfers?|data"
    r"|results?|outputs?|answers?|replies|documents?)|them|a copy|copies|b?cc"
    r"|the (?:last|full|entire|whole) \w+|contents?|everything|conversations?|chats?"
    r"|(?:chat|conversation) history)\b"
)
CONVERSATION = (
    r"\b(?:(?:full|entire|complete|whole|all (?:of )?the|verbatim) (?:\w+ )?(?:conversation|chat"
    r"|dialog(?:ue)?|message history)s?\b|(?:everything|all|anything)(?: that)? the user (?:has "
    r"|had )?(?:said|written|wrote|typed|asked|told)\b|contents? of (?:the|this|our)"
    r" (?:conversation|chat)\b|(?:everything|all|what)(?: that)? you know about (?:the user|him"
    r"|her|them)\b|messages so far\b|\byour (?:previous|earlier|last) (?:messages?|answers?"
    r"|responses?|thoughts?)\b)"
)
EXAMPLE = r"\be\.g\.|\bfor (?:example|instance)\b|\bsuch as\b|\bexample:|\blike\b"

NEGATED = rf"\b{NOT} (?:\w+ ){{0,2}}?(?:{GIVE}|{READ}|commit\w*|includ\w+|send\w*|us\w+)\b[^,;:]*"
"""A clause that states what not to do."""


def has_one(words: tuple[str, ...], text: str) -> bool:
    """Whether one of ``words`` is in ``text``: most texts need no more than this."""
    for word in words:  # noqa: SIM110 - a generator would take three times as long
        if word in text:
            return True
    return False


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return ``pattern``, compiled when it is used first."""
    return re.compile(pattern)


def find(pattern: str, text: str) -> re.Match[str] | None:
    """Return the first match of ``pattern`` in ``text``."""
    return compiled(pattern).search(text)


def words_of(text: str) -> tuple[str, ...]:
    """Return the words that ``text`` separates by ``|``."""
    return tuple(text.split("|"))


_DUE = rf"\b{MUST}\b"
_IS_GIVEN = rf"\b{GIVEN}\b"


def _is_given(text: str) -> bool:
    return bool(find(_DUE, text) and find(_IS_GIVEN, text))


_FILE_WORDS = (
    r"~/|~\|home|/root|/users|profile%|.ssh|.aws|.gnupg|.kube|.netrc|.npmrc|.pypirc|.pgpass|"
    r".env|.git-cred|_history|id_|/etc/|mcp.json|mcp_config|claude_desktop|authorized_keys|"
    r"wallet.dat|credentials.|confidential|restricted|classified|secrets|file"
)
FILE_WORDS = words_of(_FILE_WORDS)
"""Words of which one is in every text that names a sensitive file."""
_READS = rf"\b(?:{READ}|contents?)\b"
_READS_FIRST = (
    rf"\b(?:{MUST}|first|please) (?:\w+ ){{0,2}}{READ_ONLY}\b|\bbefore (?:you )?(?:us|call|runn?)"
    rf"(?:e|ing)?\b.*\b{READ_ONLY}\b|\b(?:{GIVE}|fill)\b.{{0,30}}\bcontents?\b|\b(?:{MUST}"
    r"|unless)\b.*\bcontents?\b|\bcontents?\b.*\b(?:(?:required|needed|expected) (?:as|in|for)"
    rf"|argument|parameter|field)\b|\b{GIVE}\b.*\bcontents? of (?:any|all|every)\b"
)
_GIVES_CONTENTS = (
    rf"\bbefore (?:you )?(?:us|call)(?:e|ing)? (?:this|{OTHER_TOOL})\b.*(?:{GIVE}\b|{CALL_WITH})"
    r" (?:its|the|their) (?:\w+ )?contents?\b"
)


def _passes_on_a_file(text: str) -> bool:
    if not find(FILE, text):
        return "before" in text and find(_GIVES_CONTENTS, text) is not None
    if find(_READS, text) and (find(GIVE_IT, text) or _is_given(text)):
        return True
    return find(_READS_FIRST, text) is not None


def is_continued(before: str, claim: str) -> bool:
    """Whether ``claim`` passes on the sensitive file that the sentence ``before`` reads."""
    return bool(before and find(GIVE_IT, claim) and find(FILE, before) and find(_READS, before))


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
    rf"{SECRET}|\bvalues? of (?:all |any |the )*(?:environment var|\w+_(?:api_key|token|secret))"
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
    if not find(_NAMES_A_SECRET, text):
        return False
    if find(_SEEKS_SECRETS, text):
        return True
    if not find(_SECRET_OF_SOMEONE, text):
        return False
    return any(find(each, text) for each in (_GIVES_SECRET, GIVE_IT, CALL_WITH)) or _is_given(text)


_IS_AN_OPTION = r"\bin the (?:response|result|output|export)\b|\bwhether\b|\bif true\b"
_ALL_CONTENTS = rf"{_GIVES}.{{0,20}}\bcontents? of (?:every|all|any)\b.*\b(?:argument|parameter)\b"
_TOOLS_OF_THE_MODEL = r"\btools? .{0,40}(?:available to you|you have|you can (?:use|call))\b"
_GIVES_THEM = rf"\b{GIVE} (?:it|them|their|its)\b"


def _passes_on_the_conversation(text: str) -> bool:
    if find(_IS_AN_OPTION, text):
        return False
    if find(CONVERSATION, text):
        return bool(find(_GIVES_OR_CALLS, text) or _is_given(text))
    if find(_ALL_CONTENTS, text):
        return True
    return bool(find(_TOOLS_OF_THE_MODEL, text) and find(_GIVES_THEM, text))


_EACH_TIME = rf"\b(?:{MUST}|whenever|(?:every|each|any) ?time|when (?:you )?(?:call|us|send)\w*)\b"
_GOES_TO_MAILBOX = (
    rf"\b(?:sent|forwarded|copied|routed|delivered)\b.{{0,60}}{MAILBOX}"
    rf"|{MAILBOX}.{{0,40}}\b(?:b?cc|recipients?)\b|\bb?cc\b.{{0,40}}{MAILBOX}"
)
_CHANGED_TO_MAILBOX = rf"\b(?:change|replace|swap|redirect)\b.{{0,200}}{MAILBOX}"
_SENDS_TO_ADDRESS = rf"{SEND}.{{0,200}}{ADDRESS}"


def _sends_to_an_address(text: str) -> bool:
    if not find(ADDRESS, text) or find(EXAMPLE, text):
        return False
    if find(_EACH_TIME, text) and find(_GOES_TO_MAILBOX, text):
        return True
    if find(_CHANGED_TO_MAILBOX, text):
        return True
    return bool(find(_SENDS_TO_ADDRESS, text) and find(MANY, text))


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
    if not find(TOOL, text):
        return False
    if find(_GIVES_PARTS, text) and find(OTHER_TOOL, text):
        return True
    if find(_GIVES_COPY, text):
        return True
    return bool(find(_WHEN_CALLED, text) and find(_IS_CHANGED, text))


_PASSES_ON_THE_PERSON = (
    rf"\b{MUST}\b.{{0,20}}\b(?:{GIVE}|{GIVEN}|start with|contain)\b.{{0,40}}\buser(?:'s|s'|'s own)"
    r" (?:\w+ ){0,2}?(?:name|e-?mails?|address(?:es)?|phone(?: number)?|location|files?|documents?"
    r"|messages?|history|photos?|contacts?|calendar)\b"
)
_PUBLISHES = rf"{_GIVES}.{{0,60}}\bprivate\b.{{0,60}}\b(?:public|external)\b"

_RULES: tuple[tuple[str, Callable[[str], object]], ...] = (
    (f"{_FILE_WORDS}|content", _passes_on_a_file),
    ("key|token|pass|secret|credential|pin|cvv|phrase|card |cookie|env", _passes_on_a_secret),
    (
        "conversation|chat|dialog|message|the user|you know|content|tool",
        _passes_on_the_conversation,
    ),
    ("@|+|http|0x|account|iban", _sends_to_an_address),
    ("tool|_", _changes_other_calls),
    ("user", partial(find, _PASSES_ON_THE_PERSON)),
    ("private", partial(find, _PUBLISHES)),
)
RULES = tuple((words_of(words), is_broken) for words, is_broken in _RULES)
"""Each with words of which one is in every sentence that breaks the rule."""
