// Skills on the official SDK: `node skills.mjs NODE_MODULES FOLDER` serves those of FOLDER over stdio.
import { pathToFileURL } from "node:url";

const [modules, folder] = process.argv.slice(2);
const sdk = (name) =>
  import(pathToFileURL(`${modules}/@modelcontextprotocol/server/dist/${name}.mjs`).href);

const { McpServer } = await sdk("index");
const { serveStdio } = await sdk("stdio");
const { loadSkills } = await sdk("ext/skills/node");

const mcp = new McpServer({ name: "skills", version: "1" }, { capabilities: { resources: {} } });
(await loadSkills(folder)).attach(mcp);
await serveStdio(() => mcp);
