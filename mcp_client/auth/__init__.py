"""OAuth for the HTTP transports: flows as plain generators, run inside ``httpx.Auth``.

The modules, from the request to the network::

    httpx_auth.py      adds the token to each request, and replaces a refused one
    token_manager.py   the token for one server, and how the next one is obtained
    single_flight.py   a refresh or login that several requests wait for, one in all processes
    oauth.py           a person logs in with a browser
    grants.py          client credentials, workload identity, a company's identity provider
    code_flow.py       a login, in the order in which things happen
    code_request.py    the requests for a code: with a browser here, or for another device
    token_endpoint.py  requests to the token endpoint; refreshing and revoking
    discovery.py       from the server's URL to its authorization server
    one_issuer.py      which endpoints may share a secret
    registration.py    our client at the authorization server
    signing.py         private keys, and proof of possession of the one a token is bound to
    store.py           where tokens are stored: memory, a file, the system's keyring, any state
    tokens.py          tokens and registrations
    steps.py           the steps and outcomes of a flow, and the words of a refusal
    safe_fetch.py      sends a flow's requests, to allowed addresses only
    browser.py         has a person log in
    redirect.py        the page that receives the redirect
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "httpx_auth": ["BearerToken"],
        "oauth": ["OAuth"],
        "code_request": ["Deviations"],
        "grants": [
            "ClientCredentials",
            "WorkloadIdentity",
            "EnterpriseAuthorization",
            "IdentityProvider",
        ],
        "store": ["TokenStore", "FileTokens", "KeyringTokens", "MemoryTokens"],
        "tokens": ["Token"],
        "steps": ["DeviceLogin"],
    },
)
