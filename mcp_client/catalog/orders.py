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
alone, in pieces of ``_MAX_SENTENCE_CHARS``, so the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..runtime.safe_text import is_invisible
from .order_rules import (
    FILE_WORDS,
    GIVE,
    MUST,
    NEGATED,
    NOT,
    PERSON,
    RULES,
    THE,
    THIS,
    TOOL,
    compiled,
    find,
    has_one,
    is_continued,
    words_of,
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
    phrases = [phrase for phrase in PHRASES if has_one(phrase[0], flat)]
    rules = [rule for rule in RULES if has_one(rule[0], flat)]
    before = ""
    for sentence in _sentences(plain) if phrases or rules else ():
        for words, pattern in phrases:
            match = find(pattern, sentence) if has_one(words, sentence) else None
            if match:
                return match[0]
        claim = sentence
        if has_one(_NEGATION_WORDS, sentence):
            claim = compiled(NEGATED).sub("", sentence)
        for words, is_broken in rules:
            if has_one(words, claim) and is_broken(claim):
                return sentence
        if is_continued(before, claim):
            return sentence
        before = claim if has_one(FILE_WORDS, claim) else ""
    return None


def _sentences(text: str) -> Iterator[str]:
    for part in _BREAK.split(text):
        sentence = " ".join(part.split())
        for at in range(0, len(sentence), _MAX_SENTENCE_CHARS):
            yield sentence[max(0, at - _OVERLAP_CHARS) : at + _MAX_SENTENCE_CHARS]


# ----- phrases that are orders by themselves

_IGNORING = "ignore|disregard|forget|override|bypass|discard|overrule|supersede"
_IGNORE = rf"\b(?:{_IGNORING})\b"
_BEFORE = r"(?:previous|prior|above|earlier|preceding)"
_TELL = (
    r"(?:tell(?!(?:ing)? the user (?:to|how))|mention|inform|reveal|alert|warn|disclos|admit"
    r"|confess|acknowledg|notify(?= (?:the|your) user\b(?! (?:by|via|about new|when)))|(?:show"
    rf"|display|say|report|explain|expose|print|return|output)(?=(?:ing)? {THIS}))(?:e|ing)?\b"
)
_NEGATIONS = (
    "not |not,|n't|dont|never|avoid|refrain|need to|without|instead of|under no|in no case"
    "|forbidden"
)
_PHRASES: tuple[tuple[str, str], ...] = (
    # earlier instructions of the model are to be ignored
    (
        _IGNORING,
        (
            rf"{_IGNORE}(?: [\w'-]+){{0,5}}? (?:{_BEFORE}|existing|original|initial|system|safety"
            r"|security|developer|other|any|all|your|these|those|user'?s?)(?: [\w'-]+){0,2}?"
            r" (?:instructions?|prompts?|(?<=system )messages?|guidelines|directives|directions"
            r"|safeguards|training)\b"
        ),
    ),
    (
        _IGNORING,
        (
            rf"{_IGNORE}(?: \w+){{0,4}}? (?:{_BEFORE}|your|safety|system)(?: [\w'-]+){{0,1}}"
            r" (?:rules|policies|restrictions|constraints|limits|context|orders|commands|tasks)\b"
        ),
    ),
    (_IGNORING, rf"{_IGNORE} (?:all )?(?:of )?(?:the )?{_BEFORE}(?:$|[.!,;]| and\b)"),
    (
        _IGNORING,
        (
            rf"{_IGNORE} (?:everything|all|anything|what)(?: that)? (?:you|the user)(?: \w+){{0,2}}"
            r" (?:told|asked|said|want(?:s|ed)?|know|knew|learned|instructed|wrote)\b"
        ),
    ),
    (
        _IGNORING,
        (
            rf"{_IGNORE} the user'?s?(?: \w+)? (?:questions?|requests?|wish(?:es)?|orders?|intent"
            r"|answers?)\b"
        ),
    ),
    (_IGNORING, rf"{_IGNORE}(?: [\w'-]+){{0,5}}? (?:other|another|all) tools?\b"),
    (
        "void|obsolete|invalid|cancel|replaced|superseded|revoked|outdated|no",
        (
            rf"\b{_BEFORE} (?:instructions|prompts|rules|guidelines|orders) (?:is|are|were|have"
            r" been) (?:now )?(?:void|obsolete|invalid|cancell?ed|replaced|superseded|revoked"
            r"|outdated|no)\b"
        ),
    ),
    (
        _IGNORING,
        (
            rf"{_IGNORE} (?:the |all |all the |any )?(?:instructions|prompts?|rules|guidelines"
            r"|everything)(?: \w+){0,2} (?:above|before|so far|from the user)\b"
        ),
    ),
    (
        "overrides|supersedes|replaces",
        (
            r"\b(?:overrides|supersedes|replaces) (?:all|any|every|the) (?:other|previous|prior"
            r"|earlier) (?:instructions?|rules|prompts?)\b"
        ),
    ),
    (
        "precedence|priority",
        (
            r"\b(?:takes?|has|have) (?:precedence|priority) over (?:(?:anything|everything"
            r"|whatever) |(?:all|any|the|your) (?:other |previous |earlier |system )"
            r"(?:instructions?|prompts?|rules|tools?)\b)"
        ),
    ),
    ("you are no", r"\byou are (?:no longer|not) (?:bound|restricted|limited) by\b"),
    (
        "the user",
        (
            r"\b(?:whatever|no matter what|regardless of what) the user (?:says?|asks?|wants?"
            r"|decides?)\b"
        ),
    ),
    (
        "stop|cease",
        (
            r"\b(?:stop|cease) (?:following|obeying|listening to) (?:the |your |all |any )?(?:\w+"
            r" )?(?:instructions|rules|orders|guidelines|users?)\b"
        ),
    ),
    (
        "from now on",
        r"\bfrom now on,? (?:you|always|never|answer|call|use|ignore|act|every|all)\b",
    ),
    ("instruction", r"\bnew (?:system )?instructions?:"),
    ("system override", r"\bsystem override\b"),
    ("[", r"^\W*\[(?:system|admin|developer|hidden)(?: \w+)?\]"),
    (
        "<important|<secret|<hidden|<system",
        (
            r"<important\b[^<>]*>|^\W*<(?:secret|hidden|system(?:[_ -]\w+)?)>"
            r"|<(?:secret|hidden|system(?:[_ -]\w+)?)>(?=\w)"
        ),
    ),
    ("as an ai", rf"\bas an ai\b.{{0,60}}\byou (?:{MUST}|will always)\b"),
    (
        "it say|they say|it tell|they tell",
        (
            r"\b(?:do|follow|obey|execute) (?:exactly )?(?:what|everything|whatever) (?:it|they)"
            r" (?:says?|tell)"
        ),
    ),
    # something is hidden from the person
    (_NEGATIONS, rf"\b{NOT}(?: ever|,[^,]{{0,40}},)? {_TELL}.{{0,120}}?\b{PERSON}"),
    (
        "make sure|ensure|so that|so the|see to it",
        (
            rf"\b(?:make sure|ensure|see to it|so)(?: that)? {THE}{PERSON} (?:will not|won't"
            r"|(?:does|do) not|(?:does|do)n't|never|cannot|can't) (?:sees?|notices?|knows?|learns?"
            r"|finds?|realizes?|suspects?)\b"
        ),
    ),
    (
        _NEGATIONS,
        (
            rf"\b{NOT}(?: ever| \w+ n?or)? (?:mention|reveal|disclose|talk about)(?:ing)?"
            rf" (?:that you\b|{THIS})"
        ),
    ),
    (
        "nothing|quiet|silent",
        (
            rf"\b(?:say nothing (?:of|about)|(?:keep quiet|stay silent|remain silent) about) {THIS}"
            rf"|\bsay nothing to {THE}{PERSON}"
        ),
    ),
    (
        "unaware|uninformed|in the dark",
        (
            rf"\b{PERSON} (?:remains?|stays?|is|are|be) (?:kept )?(?:unaware|uninformed|in the"
            r" dark)\b"
        ),
    ),
    (
        _NEGATIONS,
        rf"\b{NOT}(?: ever)? let(?:ting)? {THE}{PERSON} (?:know|see|notice|find out|realize)",
    ),
    (
        _NEGATIONS,
        (
            rf"\b{NOT}(?: ever)? (?:ask|bother)(?:ing)? {THE}{PERSON}(?:$|[.!,;]|(?: \w+){{0,3}}?"
            r" (?:permission|confirmation|approval|consent|first|confirm|whether|question)\b)"
        ),
    ),
    ("no need", rf"\bno need to (?:ask|tell|inform|notify) {THE}{PERSON}"),
    (
        "not|never|n't",
        (
            rf"\b{PERSON} (?:must not|must never|should not|should never|shouldn'?t|mustn'?t|need"
            r" not|needn'?t|(?:does not|doesn'?t) need to|is not to|will not) (?:be (?:told"
            r"|informed|notified|aware|made aware|shown|alerted)\b|know\b|learn\b|find out|(?:see"
            r"|notice) (?:this|it|that|the call)\b)"
        ),
    ),
    (
        "find out|notice|aware|suspect",
        rf"\b{PERSON} (?:does not|doesn'?t|never) (?:find out|notice|become aware|suspect)\b",
    ),
    (
        "upset|confused|worried|alarmed|scared|angry|suspicious",
        (
            rf"\b{PERSON} (?:will|would|could|might) (?:only )?(?:be|get|become) (?:upset|confused"
            r"|worried|alarmed|scared|angry|suspicious)\b.{0,20}\b(?:sees?|knew|knows|notices?"
            r"|told)\b"
        ),
    ),
    (
        "not be|never be",
        (
            r"\b(?:must|should|may) (?:not|never) be (?:shown|revealed|disclosed|mentioned) to"
            rf" {THE}{PERSON}"
        ),
    ),
    (
        "hide|conceal|obscure",
        (
            r"\b(?:hide|conceal|obscure) (?:(?:this|it|that|these|them|the) ?(?:call|step|action"
            rf"|instructions?|fact|request|operation|use|\b)).{{0,40}}?\bfrom {THE}{PERSON}"
        ),
    ),
    (
        "keep|between us",
        (
            r"\bkeep (?:this|it|that|these|the \w+)(?: \w+){0,2} (?:hidden|secret|confidential"
            rf"|private) from {THE}{PERSON}|\bbetween us\b"
        ),
    ),
    (
        "without",
        (
            rf"\bwithout {THE}{PERSON}(?:'s?)? ?(?:knowledge|noticing|knowing|awareness|seeing"
            r"|realizing|realising|being (?:told|aware|informed|asked))\b"
        ),
    ),
    (
        "secretly|covertly|stealthily|surreptitiously|discreetly",
        r"\b(?:secretly|covertly|stealthily|surreptitiously|discreetly) (?!\w+(?:s|ed)\b)\w+",
    ),
    (
        "silently|quietly",
        (
            r"(?<!will )(?<!to )(?<!may )(?<!can )(?<!and )(?<!would )\b(?:silently|quietly)"
            r" (?:send|forward|upload|post|transmit|e-?mail|call|invoke|execute|read|copy|include"
            r"|append|pass|add|change|replace|record)\b"
        ),
    ),
    (
        "ask|pretend",
        (
            r"\b(?:asks?|asked)\b.{0,60}\b(?:deny|lie about|(?:say|answer|claim)(?: that)? (?:it"
            r"|this|you|nothing))\b|\bpretend (?:that|to|you)\b"
        ),
    ),
    (
        "even if|even when|even though|although",
        (
            r"\b(?:(?:say|claim) that|(?:tell|assure|convince) (?:the )?users? (?:that|it))\b"
            r".{0,60}\b(?:even (?:if|when|though)|although)\b"
        ),
    ),
    ("assure", r"\bassure (?:the )?users? (?:that )?(?:nothing|no )"),
    ("yourself", r"\bapprove (?:it|this|them) yourself\b"),
    # secrets and the model's own instructions are passed on
    ("content", r"\bcontents?_(?:from|of)_\w*(?:ssh|rsa|env|passw|secret|credential|key)"),
    (
        "your",
        (
            r"\b(?:print|repeat|reveal|output|show|return|recite|tell|list|disclose|pass|send"
            r"|include|append|attach|provide|put|add|insert|submit|paste|write|give|copy) (?:out "
            r"|me |us |here )?(?:the (?:full |whole )?(?:text|contents?) of )?your (?:\w+ )"
            r"{0,2}?(?:system prompt|system message|(?:initial|original|hidden|secret|system)"
            r" (?:instructions|prompt))\b"
        ),
    ),
    # an approval that no one gave, and work behind the back of the person
    (
        "consent|approv|permission|confirm|agreed",
        (
            r"\b(?:assume|presume) (?:that )?(?:the )?user'?s? (?:consent|approval|permission|has"
            r" (?:approved|agreed|consented|confirmed))\b|\bas if (?:the )?user (?:had|has)"
            r" (?:approved|agreed|consented|confirmed)\b"
            r"|\b(?:skip|bypass|circumvent|suppress) (?:the |any |all )?(?:user )?(?:confirmation"
            rf"|approval|permission|consent)s? (?:from|of|by) {THE}{PERSON}"
            r"|\buser has already (?:approved|agreed|consented|confirmed)\b.{0,60}\b(?:do not|don't"
            r"|never) ask for\b"
        ),
    ),
    (
        "follow|obey|listen|respect",
        (
            rf"\b{NOT} (?:follow|obey|listen to|respect) the user'?s? (?:instructions|orders"
            r"|wishes)\b"
        ),
    ),
    (
        "as instruction|as an instruction|as the instruction|as order|as an order",
        (
            r"\b(?:consider|treat|regard|interpret|take) (?:\w+ ){0,3}?(?:everything|results?"
            r"|outputs?|responses?|text)\b.{0,40}\bas (?:an? |the )?(?:instruction|order)s?\b"
        ),
    ),
    (
        "you are now",
        r"\byou are now\b.{0,60}\b(?:no (?:rules|restrictions|limits)|unrestricted)\b",
    ),
    (
        "nobody|no one|without being|as if",
        (
            r"\bso that (?:nobody|no one) (?:notices|finds out|suspects|knows about)\b|\bwithout"
            r" being (?:noticed|detected|observed)\b|\bmake it (?:look|seem|appear) as if\b"
        ),
    ),
    (
        "only you|only the model|only the assistant|invisible|hidden",
        (
            r"\bonly (?:you|the (?:model|assistant|ai))\b.{0,30}\b(?:may|should|must) (?:know|see"
            r"|read)\b|\b(?:must|should|has to|stay|remain)\b.{0,30}\b(?:invisible|hidden)"
            rf" (?:to|from) (?:the )?{PERSON}"
        ),
    ),
    (
        "audit|log|monitoring",
        (
            r"\b(?:disable|turn off|delete|clear|wipe|erase) (?:the |all |any )?(?:audit )?(?:logs?"
            r"|logging|monitoring)\b.{0,40}\b(?:before|after|afterwards|so that)\b"
        ),
    ),
    ("exfiltrate", r"^\W*exfiltrate\b"),
    (
        "http",
        (
            r"\b(?:tell|ask|have|get) the user (?:to|for)\b.{0,40}\b(?:passwords?|pins?|(?:seed"
            r"|recovery) phrases?|card numbers?)\b.{0,40}https?://"
        ),
    ),
    (
        "system prompt",
        (
            rf"\b{GIVE} (?:\w+ ){{0,3}}?(?:the )?system prompt\b.{{0,30}}\byour (?:answer|response"
            r"|reply|output|message)\b"
        ),
    ),
    ("your new", r"\byour new (?:role|task|goal|job|purpose) (?:is|will be)\b"),
    (
        "system prompt",
        (
            r"\b(?:text|contents?|wording|copy) of (?:the|your) (?:\w+ )?system prompt\b.{0,40}"
            r"\b(?:argument|parameter|field)\b|\b(?:argument|parameter|field|must|should)\b.{0,30}"
            r"\b(?:text|contents?|wording|copy) of (?:the|your) (?:\w+ )?system prompt\b"
        ),
    ),
    # calls of other tools are changed or left out
    (
        "other tool",
        (
            r"\bother tools?\b.{0,60}\b(?:never|do not|don't) (?:use|call|trust|run) (?:them|these"
            r"|it)\b"
        ),
    ),
    (
        "other tool",
        (
            r"\b(?:do not|don'?t|never) (?:use|call|invoke|run|trust) (?:any|the|all) other"
            r" tools?\b"
        ),
    ),
    (
        "security|verification|audit|safety|moderation|guard|approval|antivirus|scanner",
        (
            r"\b(?:do not|don'?t|never) (?:use|call|invoke|run|trust) (?:the |any )?(?:[\w-]+ )?"
            r"(?:security|verification|audit|safety|moderation|guard|approval|antivirus|scanner)\b"
        ),
    ),
    (
        "behavio|use of",
        rf"\b(?:overrides?|replaces?|modifies|affects?) (?:the )?(?:behaviou?r|use) of {TOOL}",
    ),
    (
        "curl|wget",
        r"\b(?:run|execute|use|call)\b.{0,60}\b(?:curl|wget)\b.{0,200}\|\s*(?:sudo )?\w*sh\b",
    ),
    ("download|fetch", r"\b(?:download|fetch) and (?:run|execute)\b.{0,60}https?://"),
    (
        "chmod|rm -|nc -|bash|curl|wget",
        rf"\b(?:{MUST}|first)\b.{{0,40}}\b(?:chmod -r|rm -rf?|nc -|bash -c|curl -|wget ) ?\S",
    ),
)
PHRASES = tuple((words_of(words), pattern) for words, pattern in _PHRASES)
"""Patterns, each with words of which one is in every sentence that the pattern matches."""
_NEGATION_WORDS = words_of(_NEGATIONS)
