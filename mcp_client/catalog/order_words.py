"""The words by which ``orders`` tells an order to a model: patterns, as text, in lower case."""

from __future__ import annotations

__all__ = [
    "ADDRESS",
    "CALL_WITH",
    "CONVERSATION",
    "EXAMPLE",
    "FILE",
    "GIVE",
    "GIVEN",
    "GIVE_IT",
    "MAILBOX",
    "MANY",
    "MUST",
    "NEGATED",
    "NEGATIONS",
    "OTHER_TOOL",
    "PERSON",
    "PHRASES",
    "READ",
    "READ_ONLY",
    "SECRET",
    "SECRETS",
    "SEEK",
    "SEND",
    "TOOL",
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
    r"|side ?note|side effect|copy|instruction|file|transfer|process)s?)\b"
)
KEY_KIND = (
    r"(?:(?:api|access|private|secret|ssh|gpg|bearer|encryption|auth\w*)[ _-]?(?:key|token)s?)"
)
SECRET = (
    rf"(?:{KEY_KIND}|passwords?|passphrases?|secrets?|credentials?|tokens?|pins?|cvv|(?:seed"
    r"|recovery)"
    r" phrases?|card numbers?|cookies|environment variables|env vars|\w+_(?:api_key|token"
    r"|secret))\b"
)
SECRETS = (
    rf"(?:{KEY_KIND}|passwords|passphrases|secrets|credentials|environment variables|env vars"
    r"|(?:seed|recovery) phrases?)\b"
)
FILE = (
    r"(?:(?:~|/home/[\w.-]+|/root|/users/[\w.-]+|\$\{?home\}?|%userprofile%)[/\\]\.\w"
    r"|(?<![\w-])\.(?:ssh|aws|gnupg|kube|netrc|npmrc|pypirc|pgpass|env|git-credentials"
    r"|bash_history|zsh_history)\b(?!\.(?:example|sample|template))"
    r"|(?<![a-z])id_(?:rsa|dsa|ecdsa|ed25519)\b|/etc/(?:passwd|shadow|sudoers)"
    r"|\bmcp(?:_config)?\.json\b|\bclaude_desktop_config|\bauthorized_keys\b|\bwallet\.dat\b"
    r"|\bcredentials\.\w|\b(?:confidential|restricted|classified) (?:resource|document|file|record)"
    r"|\bcompany secrets)"
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
    r"|file|keys?|output)(?! (?:path|file|name|id)))\b"
)
GIVE_IT = (
    rf"\b(?:{GIVE}{IT}|return (?:it|them|the \w+) (?:in|as|with|through) .{{0,30}}(?:field"
    r"|parameter|argument|note|answer|response|reply)\b)"
)
CALL_WITH = r"\b(?:call|use|invoke|run)\b.{0,60}\bwith\b"
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
    r"|had )?"
    r"(?:said|written|wrote|typed|asked|told)\b|contents? of (?:the|this|our) (?:conversation"
    r"|chat)\b"
    r"|(?:everything|all|what)(?: that)? you know about (?:the user|him|her|them)\b|messages so"
    r" far\b)"
)
EXAMPLE = r"\be\.g\.|\bfor (?:example|instance)\b|\bsuch as\b|\bexample:|\blike\b"

NEGATED = rf"\b{NOT} (?:\w+ ){{0,2}}?(?:{GIVE}|{READ}|commit\w*|includ\w+|send\w*|us\w+)\b[^,;:]*"
"""A clause that says what not to do."""

# ---------------------------------------------------------------------------- phrases

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
            r"|prompts?|guidelines|directives|directions|safeguards|training)\b"
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
            rf"{IGNORE} the user'?s? (?:questions?|requests?|wish(?:es)?|orders?|intent|input"
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
    (NEGATIONS, rf"\b{NOT}(?: ever)? {TELL}.{{0,120}}?\b{PERSON}"),
    (
        NEGATIONS,
        (
            rf"\b{NOT}(?: ever)? (?:mention|reveal|disclose|talk about)(?:ing)? (?:that you\b"
            rf"|{THIS})"
        ),
    ),
    (
        ("nothing", "quiet", "silent"),
        (rf"\b(?:say nothing (?:of|about)|(?:keep quiet|stay silent|remain silent) about) {THIS}"),
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
        ("even if", "even when", "even though"),
        (
            r"\b(?:say|claim|(?:tell|assure|convince) (?:the )?users?) that\b.{0,60}\beven (?:if"
            r"|when|though)\b"
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
    # calls of other tools are changed or left out
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
