"""OAuth for the HTTP transports: flows as plain generators, driven inside ``httpx.Auth``.

What a host names is here, and in ``mcp_client`` as well, where it is loaded when it is asked for.

The way to a token, and where each step lives::

    driver.py           inside httpx.Auth: sign, send, read the refusal, send again
    seat.py             what we are to one server: its token, and how the next one is got
    job.py              work that several requests wait for
    renewal.py          one refresh at a time, in all processes
    oauth.py            a person logs in
    machines.py         nobody does: what client_credentials.py, enterprise.py, workload.py share
    flow.py             the authorization-code flow, and the refresh
    discovery.py        from the server's URL to its authorization server
    registration.py     who we are to it
    token_endpoint.py   one request for a token
    dpop.py             proof of possessing the key a token is bound to
    store.py            where tokens are kept
    steps.py            what a flow asks for and is given
    documents.py        sends what a flow asks for, to addresses that may be asked
    addresses.py        which those are
    browser.py          has a person agree
    redirect.py         the page on this machine at which that ends
"""

from .bearer import BearerToken
from .client_credentials import ClientCredentials
from .enterprise import EnterpriseAuthorization, IdentityProvider
from .keyring_store import KeyringTokens
from .oauth import OAuth
from .store import FileTokens, MemoryTokens
from .tokens import Token, TokenStore
from .workload import WorkloadIdentity

__all__ = [
    "BearerToken",
    "ClientCredentials",
    "EnterpriseAuthorization",
    "FileTokens",
    "IdentityProvider",
    "KeyringTokens",
    "MemoryTokens",
    "OAuth",
    "Token",
    "TokenStore",
    "WorkloadIdentity",
]
