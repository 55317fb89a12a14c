// oidc-provider as an authorization server: dynamic registration, resource indicators, rotation,
// revocation, client credentials, DPoP, device flow. `node login_oidc.mjs PORT NODE_MODULES
// REQUIRES` runs until it is killed. REQUIRES is "pushed" (each authorization request, RFC 9126),
// "nonces" (in each DPoP proof) or "nothing".
import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [port, modules, requires] = process.argv.slice(2);
const path = createRequire(`${modules}/`).resolve("oidc-provider");
const { Provider } = await import(pathToFileURL(path).href);
const issuer = `http://127.0.0.1:${port}`;

const provider = new Provider(issuer, {
  scopes: ["openid", "offline_access", "weather"],
  clients: [
    {
      client_id: "mcp-server",
      client_secret: "introspects",
      redirect_uris: [],
      response_types: [],
      grant_types: [],
      token_endpoint_auth_method: "client_secret_basic",
    },
  ],
  clientDefaults: { token_endpoint_auth_method: "none" },
  clientAuthMethods: ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (ctx, client, code) => code.scopes.has("offline_access"),
  features: {
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    dPoP: { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => requires === "nonces" },
    pushedAuthorizationRequests: {
      enabled: true,
      requirePushedAuthorizationRequests: requires === "pushed",
    },
    registration: { enabled: true },
    revocation: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: "weather", accessTokenFormat: "opaque", accessTokenTTL: 3600 }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1");
