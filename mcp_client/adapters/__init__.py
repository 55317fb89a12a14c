"""Tools, calls and results in the shapes of LLM providers.

``PROVIDERS`` lists a module for each: ``openai_chat``, ``openai_responses``, ``anthropic`` and
``gemini``, each with a function ``toolset`` and a class ``Toolset``. They return plain dicts,
accept plain dicts or the providers' own objects, and import no provider's package.

``official`` wraps a session as the official SDK's ``ClientSession``, for frameworks that expect
one; it imports the package ``mcp`` on use.

The modules::

    openai_chat.py        OpenAI's Chat Completions
    openai_responses.py   OpenAI's Responses
    anthropic.py          Anthropic's Messages
    gemini.py             Google's Gemini
    toolset.py            the base class of all toolsets
    model_tools.py        the tools that a model sees, and the options of a toolset
    definitions.py        a tool's input schema as one provider accepts it, in strict mode too
    schema_inlining.py    references inlined
    schema_merging.py     two schemas as one, and notes on how a schema was changed
    schema_subset.py      the subset of JSON Schema that a provider accepts
    portable.py           names and patterns that every provider accepts
    calls.py              the calls in a model's response, and the response to each
    running.py            makes these calls, and stores their outcomes
    parts.py              a server's content and instructions as a model sees them
    own_tools.py          the tools of this package: search, and reading of large results
    paused.py             model responses that wait for approval
    code_mode.py          code mode: one tool that runs a script
    official.py           a session in the shape of the official SDK's
    official_types.py     results of a session as types of the official SDK
    official_sdk.py       its errors, its transports, and its callbacks as ``Handlers``
"""

__all__ = ["PROVIDERS"]

PROVIDERS = ("openai_chat", "openai_responses", "anthropic", "gemini")
"""The modules of the providers.

The class ``Toolset`` of each states its differences: ``dialect`` (its schemas, and whether it has a
strict mode), ``media_types`` (the media of a result) and ``message_media`` (the media of a user's
message).
"""
