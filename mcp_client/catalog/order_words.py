"""The words by which ``orders`` recognizes an order to a model: patterns, in lower case."""

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
    "IT",
    "MAILBOX",
    "MANY",
    "MUST",
    "NEGATED",
    "NOT",
    "OTHER_TOOL",
    "PERSON",
    "READ",
    "READ_ONLY",
    "SECRET",
    "SECRETS",
    "SEEK",
    "SEND",
    "THE",
    "THIS",
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
    r"|side ?note|side effect|copy|instruction|file|transfer|process)s?"
    r"|(?:the |its )?(?:contents?|values?|output|result) of (?:this|it|these))\b"
)
_KEY_KIND = (
    r"(?:(?:api|access|private|secret|ssh|gpg|bearer|encryption|auth\w*)[ _-]?(?:key|token)s?)"
)
SECRET = (
    rf"(?:{_KEY_KIND}|passwords?|passphrases?|secrets?|credentials?|tokens?|pins?|cvv|(?:seed"
    r"|recovery)"
    r" phrases?|card numbers?|cookies|environment variables|env vars|\w+_(?:api_key|token"
    r"|secret))\b"
)
SECRETS = (
    rf"(?:{_KEY_KIND}|passwords|passphrases|secrets|credentials|environment variables|env vars"
    r"|(?:seed|recovery) phrases?)\b"
)
FILE = (
    r"(?:(?:~|/home/[\w.-]+|/root|/users/[\w.-]+|\$\{?home\}?|%userprofile%)[/\\]\.\w"
    r"|(?<![\w-])\.(?:ssh|aws|gnupg|kube|netrc|npmrc|pypirc|pgpass|env|git-credentials"
    r"|bash_history|zsh_history)\b(?!\.(?:example|sample|template))"
    r"|(?<![a-z])id_(?:rsa|dsa|ecdsa|ed25519)\b|/etc/(?:passwd|shadow|sudoers)"
    r"|\bmcp(?:_config)?\.json\b|\bclaude_desktop_config|\bauthorized_keys\b|\bwallet\.dat\b"
    r"|\bcredentials\.\w|\b(?:confidential|restricted|classified) (?:resource|document|file|record)"
    r"|\bcompany secrets|\b(?:any|all|every|other) (?:\w+ )?(?:config(?:uration)?|credentials?"
    r"|key|private|personal|hidden) files?\b|\bfiles in (?:the|your) (?:user's )?home"
    r" (?:directory|folder))"
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
    r"|had )?"
    r"(?:said|written|wrote|typed|asked|told)\b|contents? of (?:the|this|our) (?:conversation"
    r"|chat)\b"
    r"|(?:everything|all|what)(?: that)? you know about (?:the user|him|her|them)\b|messages so"
    r" far\b|\byour (?:previous|earlier|last) (?:messages?|answers?|responses?|thoughts?)\b)"
)
EXAMPLE = r"\be\.g\.|\bfor (?:example|instance)\b|\bsuch as\b|\bexample:|\blike\b"

NEGATED = rf"\b{NOT} (?:\w+ ){{0,2}}?(?:{GIVE}|{READ}|commit\w*|includ\w+|send\w*|us\w+)\b[^,;:]*"
"""A clause that states what not to do."""
