"""Tools, calls and results in the shapes of LLM providers.

A module each, named in ``PROVIDERS``: ``openai_chat``, ``openai_responses``, ``anthropic`` and
``gemini``, each with a function ``toolset`` and a class ``Toolset``. They give plain dicts, take
plain dicts or the providers' own objects, and import no provider's package.

``official`` gives a session the shape of the official SDK's ``ClientSession``, which frameworks
take; it imports the package ``mcp`` when it is used.

The modules::

    openai_chat.py        OpenAI's Chat Completions
    openai_responses.py   OpenAI's Responses
    anthropic.py          Anthropic's Messages
    gemini.py             Google's Gemini
    toolset.py            what all providers have in common
    options.py            the options of a toolset
    shown_tools.py        the tools that a model is shown
    naming.py             names that a provider takes
    definitions.py        a tool's input schema as one provider takes it
    schema_notes.py       notes on how a schema was changed for a model
    schema_inlining.py    references inlined
    schema_merging.py     two schemas as one
    schema_subset.py      the subset of JSON Schema that a provider takes
    portable_patterns.py  patterns that every provider takes
    strict_limits.py      the limits of strict mode
    model_calls.py        the calls in a model's response
    running.py            makes these calls, and stores their outcomes
    answers.py            the response to one call
    parts.py              content of a server as a model is shown it
    char_limits.py        how long such content may be
    kept_results.py       results too large for a model, read in pieces
    paused.py             model responses that wait for approval
    tool_search.py        three tools in place of many
    code_mode.py          code mode: one tool that runs a script
    official.py           a session in the shape of the official SDK's
    official_callbacks.py the callbacks of the official SDK as ``Handlers``
    official_transport.py transports of the official SDK, for ``connect``
    official_errors.py    our errors as those of the official SDK
"""

__all__ = ["PROVIDERS"]

PROVIDERS = ("openai_chat", "openai_responses", "anthropic", "gemini")
"""The modules of the providers. What is particular to one, its class ``Toolset`` says: ``dialect``
(its schemas, and whether it has a strict mode), ``media_types`` (what a result may have) and
``message_media`` (what a user's message may have)."""
