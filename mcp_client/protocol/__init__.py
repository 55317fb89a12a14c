"""The protocol as the specification defines it. Nothing here waits: values in, values out.

The names of content, resources and prompts are in ``mcp_client.content``.

::

    jsonrpc.py           bytes to messages, messages to text
    era.py               the behaviour that a group of revisions has in common
    negotiation.py       agrees on a revision: one state machine
    opening.py           the steps and outcomes of ``negotiation``
    capabilities.py      the revisions, and the capabilities that client and server declare
    headers.py           the HTTP headers that repeat parts of a message
    response_headers.py  ``WWW-Authenticate`` and ``Retry-After``
    notifications.py     the notifications of a server, and how to subscribe to them
    metadata.py          ``_meta``, annotations, icons, and binary data
    content.py           content blocks
    content_policy.py    the content security policy of a tool's view
    resources.py         resources
    prompts.py           prompts and completions
    elicitation.py       a form for a person, and the validation of its values
    consent_url.py       a URL that a server asks a person to open
    uri_template.py      URI templates (RFC 6570)
    json_pointer.py      JSON pointers (RFC 6901)
    schema_walk.py       the objects and arrays of a JSON Schema
    canonical_json.py    canonical JSON: equal values have equal text; digests
"""
