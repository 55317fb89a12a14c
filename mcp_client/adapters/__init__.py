"""Tools, calls and results in the shapes of LLM providers.

A module each: ``openai_chat``, ``openai_responses``, ``anthropic`` and ``gemini``, each with a
function ``toolset`` and a class ``Toolset``. They give plain dicts, take plain dicts or the
providers' own objects, and import no provider's package.
"""
