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
    options.py            the options of a toolset
    model_tools.py        the tools that a model sees
    naming.py             names that a provider accepts
    definitions.py        a tool's input schema as one provider accepts it
    schema_notes.py       notes on how a schema was changed for a model
    schema_inlining.py    references inlined
    schema_merging.py     two schemas as one
    schema_subset.py      the subset of JSON Schema that a provider accepts
    portable_patterns.py  patterns that every provider accepts
    strict_limits.py      the limits of strict mode
    model_calls.py        the calls in a model's response
    running.py            makes these calls, and stores their outcomes
    answers.py            the response to one call
    parts.py              a server's content and instructions as a model sees them
    stored_results.py     results too large for a model, read in pieces
    paused.py             model responses that wait for approval
    tool_search.py        three tools in place of many
    code_mode.py          code mode: one tool that runs a script
    official.py           a session in the shape of the official SDK's
    official_callbacks.py the callbacks of the official SDK as ``Handlers``
    official_sdk.py       its errors, and its transports for ``connect``
"""

__all__ = ["PROVIDERS"]

PROVIDERS = ("openai_chat", "openai_responses", "anthropic", "gemini")
"""The modules of the providers.

The class ``Toolset`` of each states its differences: ``dialect`` (its schemas, and whether it has a
strict mode), ``media_types`` (the media of a result) and ``message_media`` (the media of a user's
message).
"""
