"""OAuth for the HTTP transports: flows as plain generators, run inside ``httpx.Auth``.

The names below are also in ``mcp_client``, which loads them when they are first used. Modules, from
the request to the network::

    httpx_auth.py      adds the token to each request, and replaces a refused one; BearerToken
    token_manager.py   the token for one server, and how the next one is obtained
    single_flight.py   a refresh or login that several requests wait for, one in all processes
    oauth.py           a person logs in with a browser
    service.py         client credentials, workload identity, a company's identity provider
    flow.py            a login, in the order in which things happen
    code_request.py    the request for a code, and the redirect that answers it
    device.py          a login on another device, with a code that is typed there
    token_endpoint.py  requests to the token endpoint; refreshing and revoking
    provider_words.py  the words in which a provider refuses a request
    discovery.py       from the server's URL to its authorization server
    one_issuer.py      which endpoints may share a secret
    registration.py    our client at the authorization server
    signing.py         private keys, and proof of possession of the one a token is bound to
    store.py           where tokens are kept: memory, a file, the system's keyring, any state
    tokens.py          tokens and registrations
    steps.py           what a flow yields and is sent
    safe_fetch.py      sends a flow's requests, to allowed addresses only
    browser.py         having a person log in
    redirect.py        the page that receives the redirect
"""

from .httpx_auth import BearerToken
from .oauth import OAuth
from .service import ClientCredentials, EnterpriseAuthorization, IdentityProvider, WorkloadIdentity
from .store import FileTokens, KeyringTokens, MemoryTokens, TokenStore
from .tokens import Token

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
