"""The phrases that are orders by themselves, each with words that indicate its presence."""

from __future__ import annotations

from .order_words import GIVE, MUST, NOT, PERSON, THE, THIS, TOOL

__all__ = ["NEGATIONS", "PHRASES"]

IGNORE = r"\b(?:ignore|disregard|forget|override|bypass|discard|overrule|supersede)\b"
BEFORE = r"(?:previous|prior|above|earlier|preceding)"
TELL = (
    r"(?:tell(?!(?:ing)? the user (?:to|how))|mention|inform|reveal|alert|warn|disclos|admit"
    r"|confess"
    r"|acknowledg|notify(?= (?:the|your) user\b(?! (?:by|via|about new|when)))"
    rf"|(?:show|display|say|report|explain|expose|print|return|output)(?=(?:ing)? {THIS}))(?:e"
    r"|ing)?\b"
)
IGNORING = (
    "ignore",
    "disregard",
    "forget",
    "override",
    "bypass",
    "discard",
    "overrule",
    "supersede",
)
NEGATIONS = (
    "not ",
    "not,",
    "n't",
    "dont",
    "never",
    "avoid",
    "refrain",
    "need to",
    "without",
    "instead of",
    "under no",
    "in no case",
    "forbidden",
)
PHRASES: tuple[tuple[tuple[str, ...], str], ...] = (
    # what the model was told before is to be ignored
    (
        IGNORING,
        (
            rf"{IGNORE}(?: [\w'-]+){{0,5}}? (?:{BEFORE}|existing|original|initial|system|safety"
            r"|security"
            r"|developer|other|any|all|your|these|those|user'?s?)(?: [\w'-]+){0,2}?"
            r" (?:instructions?"
            r"|prompts?|(?<=system )messages?|guidelines|directives|directions|safeguards"
            r"|training)\b"
        ),
    ),
    (
        IGNORING,
        (
            rf"{IGNORE}(?: \w+){{0,4}}? (?:{BEFORE}|your|safety|system)(?: [\w'-]+){{0,1}} (?:rules"
            r"|policies|restrictions|constraints|limits|context|orders|commands|tasks)\b"
        ),
    ),
    (IGNORING, rf"{IGNORE} (?:all )?(?:of )?(?:the )?{BEFORE}(?:$|[.!,;]| and\b)"),
    (
        IGNORING,
        (
            rf"{IGNORE} (?:everything|all|anything|what)(?: that)? (?:you|the user)(?: \w+){{0,2}}"
            r" (?:told|asked|said|want(?:s|ed)?|know|knew|learned|instructed|wrote)\b"
        ),
    ),
    (
        IGNORING,
        (
            rf"{IGNORE} the user'?s?(?: \w+)? (?:questions?|requests?|wish(?:es)?|orders?|intent"
            r"|answers?)\b"
        ),
    ),
    (IGNORING, rf"{IGNORE}(?: [\w'-]+){{0,5}}? (?:other|another|all) tools?\b"),
    (
        (
            "void",
            "obsolete",
            "invalid",
            "cancel",
            "replaced",
            "superseded",
            "revoked",
            "outdated",
            "no",
        ),
        (
            rf"\b{BEFORE} (?:instructions|prompts|rules|guidelines|orders) (?:is|are|were|have"
            r" been)"
            r" (?:now )?(?:void|obsolete|invalid|cancell?ed|replaced|superseded|revoked|outdated"
            r"|no)\b"
        ),
    ),
    (
        IGNORING,
        (
            rf"{IGNORE} (?:the |all |all the |any )?(?:instructions|prompts?|rules|guidelines"
            r"|everything)"
            r"(?: \w+){0,2} (?:above|before|so far|from the user)\b"
        ),
    ),
    (
        ("overrides", "supersedes", "replaces"),
        (
            r"\b(?:overrides|supersedes|replaces) (?:all|any|every|the) (?:other|previous|prior"
            r"|earlier)"
            r" (?:instructions?|rules|prompts?)\b"
        ),
    ),
    (
        ("precedence", "priority"),
        (
            r"\b(?:takes?|has|have) (?:precedence|priority) over (?:(?:anything|everything"
            r"|whatever) |(?:all"
            r"|any|the|your) (?:other |previous |earlier |system )(?:instructions?|prompts?|rules"
            r"|tools?)\b)"
        ),
    ),
    (("you are no",), r"\byou are (?:no longer|not) (?:bound|restricted|limited) by\b"),
    (
        ("the user",),
        (
            r"\b(?:whatever|no matter what|regardless of what) the user (?:says?|asks?|wants?"
            r"|decides?)\b"
        ),
    ),
    (
        ("stop", "cease"),
        (
            r"\b(?:stop|cease) (?:following|obeying|listening to) (?:the |your |all |any )?(?:\w+"
            r" )?"
            r"(?:instructions|rules|orders|guidelines|users?)\b"
        ),
    ),
    (
        ("from now on",),
        (r"\bfrom now on,? (?:you|always|never|answer|call|use|ignore|act|every|all)\b"),
    ),
    (("instruction",), r"\bnew (?:system )?instructions?:"),
    (("system override",), r"\bsystem override\b"),
    (("[",), r"^\W*\[(?:system|admin|developer|hidden)(?: \w+)?\]"),
    (
        ("<important", "<secret", "<hidden", "<system"),
        (
            r"<important\b[^<>]*>|^\W*<(?:secret|hidden|system(?:[_ -]\w+)?)>"
            r"|<(?:secret|hidden|system(?:[_ -]\w+)?)>(?=\w)"
        ),
    ),
    (("as an ai",), rf"\bas an ai\b.{{0,60}}\byou (?:{MUST}|will always)\b"),
    (
        ("it say", "they say", "it tell", "they tell"),
        (
            r"\b(?:do|follow|obey|execute) (?:exactly )?(?:what|everything|whatever) (?:it|they)"
            r" (?:says?|tell)"
        ),
    ),
    # something is hidden from the person
    (NEGATIONS, rf"\b{NOT}(?: ever|,[^,]{{0,40}},)? {TELL}.{{0,120}}?\b{PERSON}"),
    (
        ("make sure", "ensure", "so that", "so the", "see to it"),
        (
            rf"\b(?:make sure|ensure|see to it|so)(?: that)? {THE}{PERSON} (?:will not|won't"
            r"|(?:does|do) not|(?:does|do)n't|never|cannot|can't) (?:sees?|notices?|knows?|learns?"
            r"|finds?|realizes?|suspects?)\b"
        ),
    ),
    (
        NEGATIONS,
        (
            rf"\b{NOT}(?: ever| \w+ n?or)? (?:mention|reveal|disclose|talk about)(?:ing)?"
            rf" (?:that you\b|{THIS})"
        ),
    ),
    (
        ("nothing", "quiet", "silent"),
        (
            rf"\b(?:say nothing (?:of|about)|(?:keep quiet|stay silent|remain silent) about) {THIS}"
            rf"|\bsay nothing to {THE}{PERSON}"
        ),
    ),
    (
        ("unaware", "uninformed", "in the dark"),
        (
            rf"\b{PERSON} (?:remains?|stays?|is|are|be) (?:kept )?(?:unaware|uninformed|in the"
            r" dark)\b"
        ),
    ),
    (
        NEGATIONS,
        (rf"\b{NOT}(?: ever)? let(?:ting)? {THE}{PERSON} (?:know|see|notice|find out|realize)"),
    ),
    (
        NEGATIONS,
        (
            rf"\b{NOT}(?: ever)? (?:ask|bother)(?:ing)? {THE}{PERSON}(?:$|[.!,;]|(?: \w+){{0,3}}?"
            r" (?:permission|confirmation|approval|consent|first|confirm|whether|question)\b)"
        ),
    ),
    (("no need",), rf"\bno need to (?:ask|tell|inform|notify) {THE}{PERSON}"),
    (
        ("not", "never", "n't"),
        (
            rf"\b{PERSON} (?:must not|must never|should not|should never|shouldn'?t|mustn'?t|need"
            r" not"
            r"|needn'?t|(?:does not|doesn'?t) need to|is not to|will not) (?:be (?:told|informed"
            r"|notified|aware|made aware|shown|alerted)\b|know\b|learn\b|find out|(?:see|notice)"
            r" (?:this"
            r"|it|that|the call)\b)"
        ),
    ),
    (
        ("find out", "notice", "aware", "suspect"),
        (rf"\b{PERSON} (?:does not|doesn'?t|never) (?:find out|notice|become aware|suspect)\b"),
    ),
    (
        ("upset", "confused", "worried", "alarmed", "scared", "angry", "suspicious"),
        (
            rf"\b{PERSON} (?:will|would|could|might) (?:only )?(?:be|get|become) (?:upset|confused"
            r"|worried|alarmed|scared|angry|suspicious)\b.{0,20}\b(?:sees?|knew|knows|notices?"
            r"|told)\b"
        ),
    ),
    (
        ("not be", "never be"),
        (
            r"\b(?:must|should|may) (?:not|never) be (?:shown|revealed|disclosed|mentioned) to"
            rf" {THE}{PERSON}"
        ),
    ),
    (
        ("hide", "conceal", "obscure"),
        (
            r"\b(?:hide|conceal|obscure) (?:(?:this|it|that|these|them|the) ?(?:call|step|action"
            rf"|instructions?|fact|request|operation|use|\b)).{{0,40}}?\bfrom {THE}{PERSON}"
        ),
    ),
    (
        ("keep", "between us"),
        (
            r"\bkeep (?:this|it|that|these|the \w+)(?: \w+){0,2} (?:hidden|secret|confidential"
            r"|private)"
            rf" from {THE}{PERSON}|\bbetween us\b"
        ),
    ),
    (
        ("without",),
        (
            rf"\bwithout {THE}{PERSON}(?:'s?)? ?(?:knowledge|noticing|knowing|awareness|seeing"
            r"|realizing|realising|being (?:told|aware|informed|asked))\b"
        ),
    ),
    (
        ("secretly", "covertly", "stealthily", "surreptitiously", "discreetly"),
        (r"\b(?:secretly|covertly|stealthily|surreptitiously|discreetly) (?!\w+(?:s|ed)\b)\w+"),
    ),
    (
        ("silently", "quietly"),
        (
            r"(?<!will )(?<!to )(?<!may )(?<!can )(?<!and )(?<!would )\b(?:silently|quietly)"
            r" (?:send"
            r"|forward|upload|post|transmit|e-?mail|call|invoke|execute|read|copy|include|append"
            r"|pass"
            r"|add|change|replace|record)\b"
        ),
    ),
    (
        ("ask", "pretend"),
        (
            r"\b(?:asks?|asked)\b.{0,60}\b(?:deny|lie about|(?:say|answer|claim)(?: that)? (?:it"
            r"|this|you"
            r"|nothing))\b|\bpretend (?:that|to|you)\b"
        ),
    ),
    (
        ("even if", "even when", "even though", "although"),
        (
            r"\b(?:(?:say|claim) that|(?:tell|assure|convince) (?:the )?users? (?:that|it))\b"
            r".{0,60}\b(?:even (?:if|when|though)|although)\b"
        ),
    ),
    (("assure",), r"\bassure (?:the )?users? (?:that )?(?:nothing|no )"),
    (("yourself",), r"\bapprove (?:it|this|them) yourself\b"),
    # secrets and the model's own instructions are passed on
    (("content",), r"\bcontents?_(?:from|of)_\w*(?:ssh|rsa|env|passw|secret|credential|key)"),
    (
        ("your",),
        (
            r"\b(?:print|repeat|reveal|output|show|return|recite|tell|list|disclose|pass|send"
            r"|include"
            r"|append|attach|provide|put|add|insert|submit|paste|write|give|copy) (?:out |me |us "
            r"|here )?"
            r"(?:the (?:full |whole )?(?:text|contents?) of )?your (?:\w+ ){0,2}?(?:system prompt"
            r"|system message|(?:initial|original|hidden|secret|system) (?:instructions|prompt))\b"
        ),
    ),
    # an approval that nobody gave, and work behind the back of the person
    (
        ("consent", "approv", "permission", "confirm", "agreed"),
        (
            r"\b(?:assume|presume) (?:that )?(?:the )?user'?s? (?:consent|approval|permission|has"
            r" (?:approved|agreed|consented|confirmed))\b|\bas if (?:the )?user (?:had|has)"
            r" (?:approved|agreed|consented|confirmed)\b"
            r"|\b(?:skip|bypass|circumvent|suppress) (?:the |any |all )?(?:user )?(?:confirmation"
            rf"|approval|permission|consent)s? (?:from|of|by) {THE}{PERSON}"
        ),
    ),
    (
        ("follow", "obey", "listen", "respect"),
        (
            rf"\b{NOT} (?:follow|obey|listen to|respect) the user'?s? (?:instructions|orders"
            r"|wishes)\b"
        ),
    ),
    (
        ("as instruction", "as an instruction", "as the instruction", "as order", "as an order"),
        (
            r"\b(?:consider|treat|regard|interpret|take) (?:\w+ ){0,3}?(?:everything|results?"
            r"|outputs?|responses?|text)\b.{0,40}\bas (?:an? |the )?(?:instruction|order)s?\b"
        ),
    ),
    (
        ("you are now",),
        (r"\byou are now\b.{0,60}\b(?:no (?:rules|restrictions|limits)|unrestricted)\b"),
    ),
    (
        ("nobody", "no one", "without being", "as if"),
        (
            r"\bso that (?:nobody|no one) (?:notices|finds out|suspects|knows about)\b"
            r"|\bwithout being (?:noticed|detected|observed)\b"
            r"|\bmake it (?:look|seem|appear) as if\b"
        ),
    ),
    (
        ("only you", "only the model", "only the assistant", "invisible", "hidden"),
        (
            r"\bonly (?:you|the (?:model|assistant|ai))\b.{0,30}\b(?:may|should|must) (?:know|see"
            r"|read)\b|\b(?:must|should|has to|stay|remain)\b.{0,30}\b(?:invisible|hidden)"
            rf" (?:to|from) (?:the )?{PERSON}"
        ),
    ),
    (
        ("audit", "log", "monitoring"),
        (
            r"\b(?:disable|turn off|delete|clear|wipe|erase) (?:the |all |any )?(?:audit )?(?:logs?"
            r"|logging|monitoring)\b.{0,40}\b(?:before|after|afterwards|so that)\b"
        ),
    ),
    (("exfiltrate",), r"^\W*exfiltrate\b"),
    (
        ("http",),
        (
            r"\b(?:tell|ask|have|get) the user (?:to|for)\b.{0,40}\b(?:passwords?|pins?|(?:seed"
            r"|recovery) phrases?|card numbers?)\b.{0,40}https?://"
        ),
    ),
    (
        ("system prompt",),
        (
            rf"\b{GIVE} (?:\w+ ){{0,3}}?(?:the )?system prompt\b.{{0,30}}\byour (?:answer|response"
            r"|reply|output|message)\b"
        ),
    ),
    (("your new",), r"\byour new (?:role|task|goal|job|purpose) (?:is|will be)\b"),
    (
        ("system prompt",),
        (
            r"\b(?:text|contents?|wording|copy) of (?:the|your) (?:\w+ )?system prompt\b.{0,40}"
            r"\b(?:argument|parameter|field)\b|\b(?:argument|parameter|field|must|should)\b.{0,30}"
            r"\b(?:text|contents?|wording|copy) of (?:the|your) (?:\w+ )?system prompt\b"
        ),
    ),
    # calls of other tools are changed or left out
    (
        ("other tool",),
        (
            r"\bother tools?\b.{0,60}\b(?:never|do not|don't) (?:use|call|trust|run) (?:them|these"
            r"|it)\b"
        ),
    ),
    (
        ("other tool",),
        (
            r"\b(?:do not|don'?t|never) (?:use|call|invoke|run|trust) (?:any|the|all) other"
            r" tools?\b"
        ),
    ),
    (
        (
            "security",
            "verification",
            "audit",
            "safety",
            "moderation",
            "guard",
            "approval",
            "antivirus",
            "scanner",
        ),
        (
            r"\b(?:do not|don'?t|never) (?:use|call|invoke|run|trust) (?:the |any )?(?:[\w-]+ )?"
            r"(?:security|verification|audit|safety|moderation|guard|approval|antivirus|scanner)\b"
        ),
    ),
    (
        ("behavio", "use of"),
        (rf"\b(?:overrides?|replaces?|modifies|affects?) (?:the )?(?:behaviou?r|use) of {TOOL}"),
    ),
    (
        ("curl", "wget"),
        (r"\b(?:run|execute|use|call)\b.{0,60}\b(?:curl|wget)\b.{0,200}\|\s*(?:sudo )?\w*sh\b"),
    ),
    (("download", "fetch"), r"\b(?:download|fetch) and (?:run|execute)\b.{0,60}https?://"),
    (
        ("chmod", "rm -", "nc -", "bash", "curl", "wget"),
        (rf"\b(?:{MUST}|first)\b.{{0,40}}\b(?:chmod -r|rm -rf?|nc -|bash -c|curl -|wget ) ?\S"),
    ),
)
"""Patterns, each with words of which one is in every sentence that the pattern matches."""
