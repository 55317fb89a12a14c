"""The protocol as the specification defines it. Nothing here waits: values in, values out.

The names of content, resources and prompts are in ``mcp_client.content``.

::

    jsonrpc.py         bytes to messages, messages to text
    era.py             the behaviour that a group of revisions has in common; notifications
    negotiation.py     agrees on a revision: one state machine
    opening.py         the steps and outcomes of ``negotiation``
    capabilities.py    the revisions, and the capabilities that client and server declare
    headers.py         the HTTP headers of requests and responses
    metadata.py        ``_meta``, annotations, icons, and binary data
    content.py         content blocks
    uris.py            URI templates, URLs that a person opens, domains of a view
    offers.py          resources, prompts and completions
    elicitation.py     a form for a person, and the validation of its values
    json_paths.py      JSON pointers (RFC 6901), and the walk through a JSON Schema
    canonical_json.py  canonical JSON: equal values have equal text; digests
"""
