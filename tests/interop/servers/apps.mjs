// MCP Apps on the official SDK and ext-apps: `node apps.mjs NODE_MODULES DOMAIN...` serves over
// stdio. The view asks each DOMAIN, of which only the first is declared, and tells its host how that
// went; then it calls tools and reads a resource through the host. It is written with the `App` of
// ext-apps, in one document: a view has no files beside it.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, ...domains] = process.argv.slice(2);
const resolve = createRequire(`${modules}/`).resolve;
const load = (name) => import(pathToFileURL(`${modules}/${name}`).href);

const { McpServer } = await load("@modelcontextprotocol/server/dist/index.mjs");
const { serveStdio } = await load("@modelcontextprotocol/server/dist/stdio.mjs");
const apps = "@modelcontextprotocol/ext-apps/dist/src";
const { registerAppTool, registerAppResource, RESOURCE_MIME_TYPE } = await load(
  `${apps}/server/index.js`,
);
const { z } = await import(pathToFileURL(resolve("zod")).href);

const VIEW = "ui://apps/view.html";

async function page() {
  const library = await readFile(`${modules}/${apps}/app-with-deps.js`, "utf8");
  const name = /([A-Za-z_$][\w$]*) as App[,}]/.exec(library)[1];
  const code = `
    const tell = (what, data) => app.sendLog({ level: "info", logger: what, data });
    const app = new ${name}({ name: "view", version: "1.0.0" }, {}, { autoResize: false });
    app.ontoolresult = async (result) => {
      await tell("shown", result.structuredContent);
      for (const domain of ${JSON.stringify(domains)}) {
        const reached = await fetch(domain).then((answer) => answer.ok, () => false);
        await tell("fetch", [domain, reached]);
      }
      await tell("allowed", document.featurePolicy.allowedFeatures());
      for (const tool of ["refresh", "model_only", "none"]) {
        const called = await app.callServerTool({ name: tool, arguments: { from: "view" } }).then(
          (answer) => answer.structuredContent, (error) => error.message);
        await tell("call", [tool, called]);
      }
      const read = await app.readServerResource({ uri: "data://apps/hours" });
      await tell("read", read.contents[0].text);
      const opened = await app.openLink({ url: "file:///etc/passwd" }).then(
        () => "opened", (error) => error.message);
      await tell("open", opened);
      await tell("done", null);
    };
    await app.connect();`;
  const script = `${library}\n${code}`.replaceAll("</script", "<\\/script");
  return `<!doctype html><title>View</title><p>A view<script type="module">${script}</script>`;
}

const ui = (visibility) => ({ ui: { resourceUri: VIEW, ...(visibility && { visibility }) } });
const answer = (from) => ({
  content: [{ type: "text", text: `from ${from}` }],
  structuredContent: { from },
});

function server() {
  const mcp = new McpServer({ name: "apps", version: "1.0.0" });
  const inputSchema = z.object({ from: z.string().optional() });
  const tools = [["show"], ["refresh", ["app"]], ["model_only", ["model"]]];
  for (const [name, visibility] of tools) {
    const about = { description: name, inputSchema, _meta: ui(visibility) };
    registerAppTool(mcp, name, about, async ({ from }) => answer(from ?? "nowhere"));
  }
  registerAppResource(mcp, "view", VIEW, { mimeType: RESOURCE_MIME_TYPE }, async () => ({
    contents: [
      {
        uri: VIEW,
        mimeType: RESOURCE_MIME_TYPE,
        text: await page(),
        _meta: {
          ui: {
            csp: { connectDomains: domains.slice(0, 1) },
            permissions: { camera: {}, clipboardWrite: {} },
            prefersBorder: true,
          },
        },
      },
    ],
  }));
  mcp.registerResource("hours", "data://apps/hours", {}, async (uri) => ({
    contents: [{ uri: uri.href, text: "9 to 5" }],
  }));
  return mcp;
}

await serveStdio(server);
