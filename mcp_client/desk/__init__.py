"""A web page on which people decide the requests of an ``ApprovalQueue``.

::

    page.py      ``ApprovalPage``: the requests of a queue on a web page
    serve.py     the page alone, on this machine: ``serve_desk``
    http.py      headers, form fields, the decision in them, and refusals
    inbox.py     the page and its lists: pending requests, what was decided, logins elsewhere
    card.py      one request
    subject.py   what a request is about, in a few words; several requests decided at once
    markup.py    HTML in which foreign text stays text
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(__name__, {"page": ["ApprovalPage"], "serve": ["serve_desk"]})
