"""Content of servers: blocks of results and messages, resources and prompts; frozen values.

Each name is defined by the room that uses it: ``protocol/`` and ``catalog/``.
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "..protocol.content": [
            "ContentBlock",
            "TextContent",
            "ImageContent",
            "AudioContent",
            "ResourceLink",
            "EmbeddedResource",
            "UnknownContent",
        ],
        "..protocol.offers": ["Resource", "Prompt"],
        "..catalog.library": ["ResourceResult", "PromptResult"],
        "..runtime.safe_text": ["safe_text"],
    },
)
