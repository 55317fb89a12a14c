# mypy: ignore-errors
# Authlib and Flask are installed for this server alone.
"""Authlib as an authorization server, in Flask: ``python login_authlib.py PORT GRANT``.

Requests, grants, client authentication, PKCE, registration, revocation, introspection and ``iss``
are Authlib's. Here are what it keeps, a login page, and what Authlib leaves to the application:
resource indicators (RFC 8707), and the token exchange of an identity provider (RFC 8693). GRANT
states what an assertion is, "jwt-bearer" (RFC 7523) or "id-jag": Authlib takes one of the two at a
time. ``POST /trust`` with ``iss``, ``jwks`` and ``client_id`` sets whose assertions are trusted.
"""

import os
import sys
import time
from types import SimpleNamespace

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.drafts import IDJAGGrant
from authlib.oauth2.rfc6749 import BaseGrant, ClientMixin, TokenEndpointMixin, TokenMixin, grants
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion, JWTBearerGrant
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc7662 import IntrospectionEndpoint
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from authlib.oauth2.rfc9207 import IssuerParameter
from flask import Flask, request
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

PORT, GRANT = int(sys.argv[1]), sys.argv[2]
ISSUER = f"http://127.0.0.1:{PORT}"
AUDIENCES = [ISSUER, f"{ISSUER}/token"]
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
CONFIDENTIAL = ["client_secret_basic", "client_secret_post", "private_key_jwt"]
METHODS = ["none", *CONFIDENTIAL]
SCOPES = ["weather", "weather.write"]
PAGE = (
    '<!doctype html><form method="post" action=""><input name="login">'
    '<input name="password" type="password"></form>'
)

metadata = AuthorizationServerMetadata(
    issuer=ISSUER,
    authorization_endpoint=f"{ISSUER}/authorize",
    token_endpoint=f"{ISSUER}/token",
    registration_endpoint=f"{ISSUER}/client_registration",
    revocation_endpoint=f"{ISSUER}/revocation",
    introspection_endpoint=f"{ISSUER}/introspection",
    scopes_supported=SCOPES,
    response_types_supported=["code"],
    grant_types_supported=["authorization_code", "refresh_token", "client_credentials", JWT_BEARER],
    token_endpoint_auth_methods_supported=METHODS,
    token_endpoint_auth_signing_alg_values_supported=["ES256"],
    code_challenge_methods_supported=["S256"],
    authorization_response_iss_parameter_supported=True,
)
clients, codes, tokens, trusted = {}, {}, [], {}
used = set()
key = ECKey.generate_key("P-256")


def is_new(jti):
    return jti not in used and used.add(jti) is None


class InvalidTarget(OAuth2Error):
    error = "invalid_target"


class Client(ClientMixin):
    def __init__(self, client_id, secret, metadata):
        self.client_id, self.secret, self.metadata = client_id, secret, metadata

    def get_client_id(self):
        return self.client_id

    def get_default_redirect_uri(self):
        return None

    def get_allowed_scope(self, scope):
        allowed = self.metadata.get("scope", "").split()
        return " ".join(each for each in (scope or "").split() if each in allowed)

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri in self.metadata.get("redirect_uris", [])

    def check_client_secret(self, client_secret):
        return self.secret == client_secret

    def check_endpoint_auth_method(self, method, endpoint):
        return self.metadata["token_endpoint_auth_method"] == method

    def check_response_type(self, response_type):
        return response_type in self.metadata.get("response_types", [])

    def check_grant_type(self, grant_type):
        return grant_type in self.metadata.get("grant_types", [])


class Token(SimpleNamespace, TokenMixin):
    def check_client(self, client):
        return self.client_id == client.client_id

    def get_scope(self):
        return self.scope

    def is_expired(self):
        return time.time() > self.ends_at

    def is_revoked(self):
        return self.revoked


def find(text, *names):
    return next((each for each in tokens for name in names if getattr(each, name) == text), None)


def save_token(token, asked):
    resource = asked.form.get("resource")
    earlier = asked.authorization_code or asked.refresh_token
    if not resource or (earlier is not None and earlier.resource != resource):
        raise InvalidTarget()
    tokens.append(
        Token(
            access_token=token["access_token"],
            refresh_token=token.get("refresh_token"),
            scope=token.get("scope") or "",
            ends_at=time.time() + token["expires_in"],
            client_id=asked.client.client_id,
            resource=resource,
            revoked=False,
        )
    )


class CodeGrant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    def save_authorization_code(self, code, asked):
        data = asked.payload.data
        if not data.get("resource"):
            raise InvalidTarget(redirect_uri=asked.payload.redirect_uri)
        codes[code] = SimpleNamespace(
            code=code,
            client_id=asked.client.client_id,
            resource=data["resource"],
            code_challenge=data["code_challenge"],
            code_challenge_method=data["code_challenge_method"],
            get_redirect_uri=lambda: asked.payload.redirect_uri,
            get_scope=lambda: asked.scope,
        )

    def query_authorization_code(self, code, client):
        known = codes.get(code)
        return known if known is not None and known.client_id == client.client_id else None

    def delete_authorization_code(self, authorization_code):
        del codes[authorization_code.code]

    def authenticate_user(self, authorization_code):
        return "ana"


class RefreshGrant(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token):
        token = find(refresh_token, "refresh_token")
        return token if token is not None and not token.revoked else None

    def authenticate_user(self, refresh_token):
        return "ana"

    def revoke_old_credential(self, refresh_token):
        refresh_token.revoked = True


class CredentialsGrant(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = CONFIDENTIAL


class WorkloadGrant(JWTBearerGrant):
    def get_audiences(self):
        return AUDIENCES

    def resolve_issuer_client(self, issuer):
        return clients[trusted[issuer]["client_id"]] if issuer in trusted else None

    def resolve_client_public_key(self, client):
        (jwks,) = (t["jwks"] for t in trusted.values() if t["client_id"] == client.client_id)
        return KeySet.import_key_set(jwks)

    def authenticate_user(self, subject):
        return subject

    def has_granted_permission(self, client, user):
        return True


class EnterpriseGrant(IDJAGGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = CONFIDENTIAL

    def get_audiences(self):
        return [ISSUER]

    def resolve_issuer_key(self, issuer, headers):
        return KeySet.import_key_set(trusted[issuer]["jwks"])

    def authenticate_user(self, subject):
        return subject

    def check_jti(self, claims, jti):
        return is_new(jti)

    def check_id_jag_permission(self, client, user, scopes):
        return self.request.id_jag_claims.get("resource") == self.request.form.get("resource")


class ExchangeGrant(BaseGrant, TokenEndpointMixin):
    """The identity provider's part: an ID-JAG for a person's ID token, signed by Authlib."""

    GRANT_TYPE = TOKEN_EXCHANGE
    TOKEN_ENDPOINT_AUTH_METHODS = CONFIDENTIAL

    def validate_token_request(self):
        self.request.client = self.authenticate_token_endpoint_client()
        form = self.request.form
        if form["audience"] not in trusted or form["requested_token_type"] != ID_JAG:
            raise InvalidTarget()
        keys = KeySet.import_key_set(trusted["https://login.example"]["jwks"])
        self.request.user = jwt.decode(form["subject_token"], keys).claims["sub"]

    def create_token_response(self):
        form, now = self.request.form, int(time.time())
        grant = IDJAGGrant.sign(
            key,
            ISSUER,
            form["audience"],
            self.request.user,
            trusted[form["audience"]]["client_id"],
            issued_at=now,
            expires_at=now + 300,
            claims={"resource": form["resource"], "scope": form.get("scope", "")},
            alg="ES256",
        )
        reported = {"access_token": grant, "token_type": "N_A", "issued_token_type": ID_JAG}
        return 200, reported, self.TOKEN_RESPONSE_HEADER


class Registration(ClientRegistrationEndpoint):
    def authenticate_token(self, asked):
        return "everybody may register"

    def get_server_metadata(self):
        return metadata

    def save_client(self, client_info, client_metadata, asked):
        name, secret = client_info["client_id"], client_info["client_secret"]
        clients[name] = client = Client(name, secret, client_metadata)
        return client


class Revocation(RevocationEndpoint):
    CLIENT_AUTH_METHODS = METHODS

    def query_token(self, token_string, token_type_hint):
        return find(token_string, "access_token", "refresh_token")

    def revoke_token(self, token, asked):
        token.revoked = True


class Introspection(IntrospectionEndpoint):
    def query_token(self, token_string, token_type_hint):
        return find(token_string, "access_token")

    def check_permission(self, token, client, asked):
        return client.client_id == "mcp-server"

    def introspect_token(self, token):
        return {"active": True, "scope": token.scope, "aud": token.resource}


class Assertion(JWTBearerClientAssertion):
    CLIENT_AUTH_METHOD = "private_key_jwt"

    def get_audiences(self):
        return AUDIENCES

    def validate_jti(self, claims, jti):
        return is_new(jti)

    def resolve_client_public_key(self, client):
        return KeySet.import_key_set(client.metadata["jwks"])


class Issuer(IssuerParameter):
    def get_issuer(self):
        return ISSUER


app = Flask(__name__)
app.config.update(OAUTH2_REFRESH_TOKEN_GENERATOR=True, OAUTH2_SCOPES_SUPPORTED=SCOPES)
server = AuthorizationServer(app, clients.get, save_token)
server.register_client_auth_method("private_key_jwt", Assertion())
server.register_extension(Issuer())
server.register_grant(CodeGrant, [CodeChallenge(required=True)])
for grant in (
    RefreshGrant,
    CredentialsGrant,
    ExchangeGrant,
    EnterpriseGrant if GRANT == "id-jag" else WorkloadGrant,
):
    server.register_grant(grant)
for endpoint in (Registration, Revocation, Introspection):
    server.register_endpoint(endpoint)
own = {"token_endpoint_auth_method": "client_secret_basic"}
clients["mcp-server"] = Client("mcp-server", "introspects", own)


@app.get("/.well-known/oauth-authorization-server")
def described():
    return metadata


@app.route("/authorize", methods=["GET", "POST"])
def authorize():
    try:
        grant = server.get_consent_grant(end_user=None)
    except OAuth2Error as error:
        return server.handle_error_response(request, error)
    if request.method == "GET":
        return PAGE
    right = (request.form["login"], request.form["password"]) == ("ana", "correct horse")
    return server.create_authorization_response(grant=grant, grant_user="ana" if right else None)


@app.post("/token")
def token():
    return server.create_token_response()


@app.post("/<any(client_registration, revocation, introspection):name>")
def other(name):
    return server.create_endpoint_response(name)


@app.post("/trust")
def trust():
    """Trust an issuer; answers with the keys of this server as an identity provider."""
    trusted[request.json["iss"]] = request.json
    return KeySet([key]).as_dict(private=False)


if __name__ == "__main__":
    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # it is reached at 127.0.0.1 only
    app.run("127.0.0.1", PORT)
