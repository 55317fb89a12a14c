"""Tools, calls and results in the shapes of LLM providers.

A module each, named in ``PROVIDERS``: ``openai_chat``, ``openai_responses``, ``anthropic`` and
``gemini``, each with a function ``toolset`` and a class ``Toolset``. They give plain dicts, take
plain dicts or the providers' own objects, and import no provider's package.
"""

__all__ = ["PROVIDERS"]

PROVIDERS = ("openai_chat", "openai_responses", "anthropic", "gemini")
"""The modules of the providers. What is particular to one, its class ``Toolset`` says: ``dialect``
(its schemas, and whether it has a strict mode), ``media_types`` (what a result may have) and
``message_media`` (what a user's message may have)."""
