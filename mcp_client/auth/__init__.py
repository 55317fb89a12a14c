"""OAuth for the HTTP transports: flows as plain generators, run inside ``httpx.Auth``.

The names below are also in ``mcp_client``, which loads them when they are first used. Modules, from
the request to the network::

    httpx_auth.py             adds the token to each request, and replaces a refused one
    token_manager.py          the token for one server, and how the next one is obtained
    shared_task.py            a refresh or login that several requests wait for
    refresh.py                one refresh at a time, in all processes
    oauth.py                  a person logs in with a browser
    service.py                grants without a person: client credentials, workload identity
    enterprise.py             a person authorized by the company's identity provider
    flow.py                   the authorization-code flow; refreshing and revoking
    discovery.py              from the server's URL to its authorization server
    registration.py           our client at the authorization server
    authorization_request.py  the URL of a login page, and the redirect that answers it
    token_endpoint.py         requests to the token endpoint
    dpop.py, keys.py          proof of possession of the key that a token is bound to
    store.py                  where tokens are kept; keyring_store.py: the system's keyring
    tokens.py                 tokens and registrations
    steps.py                  what a flow yields and is sent
    safe_fetch.py             sends a flow's requests, to allowed addresses only
    url_policy.py             which URLs and addresses are allowed
    browser.py, redirect.py   having a person log in, and the page that receives the redirect
    bearer.py                 a token that the host looks after
"""

from .bearer import BearerToken
from .enterprise import EnterpriseAuthorization, IdentityProvider
from .keyring_store import KeyringTokens
from .oauth import OAuth
from .service import ClientCredentials, WorkloadIdentity
from .store import FileTokens, MemoryTokens, TokenStore
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
