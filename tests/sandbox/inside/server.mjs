// The same on Node: an MCP server that tries things and says what happened. No packages.
import * as child from "node:child_process";
import * as dgram from "node:dgram";
import * as dns from "node:dns/promises";
import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";
import * as readline from "node:readline";
import { Worker } from "node:worker_threads";

const text = (...parts) => fs.readFileSync(path.join(...parts), "utf8");
const write = (...parts) => fs.writeFileSync(path.join(...parts), "x");
const run = (...words) => child.execFileSync(words[0], words.slice(1), { encoding: "utf8" });

function said(options) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(options);
    socket.setTimeout(500, () => socket.destroy(Object.assign(new Error(), { code: "ETIMEDOUT" })));
    socket.on("data", (data) => { socket.destroy(); resolve(String(data)); });
    socket.on("error", reject);
    socket.on("close", () => reject(Object.assign(new Error(), { code: "ECONNRESET" })));
  });
}

function udp(port) {
  return new Promise((resolve, reject) => {
    const socket = dgram.createSocket("udp4");
    const late = setTimeout(() => { socket.close(); reject(Object.assign(new Error(), { code: "ETIMEDOUT" })); }, 300);
    const end = (settle) => (value) => { clearTimeout(late); socket.close(); settle(value); };
    socket.on("message", (data) => end(resolve)(String(data)));
    socket.on("error", end(reject));
    socket.send("?", port, "127.0.0.1", (error) => error && end(reject)(error));
  });
}

const sorted = {
  read: {
    node_read_home: (w) => text(w.home, "notes.txt"),
    node_read_private_key: (w) => text(w.home, ".ssh", "id_ed25519"),
    node_read_by_child: (w) => run("cat", path.join(w.home, "notes.txt")),
    node_read_by_own_link: (w) => {
      const link = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "p-")), "link");
      fs.symlinkSync(path.join(w.home, "notes.txt"), link);
      return text(link);
    },
    node_read_tmp: (w) => text(w.tmp, "secret.txt"),
    node_read_granted: (w) => text(w.readable, "secret.txt"),
    node_environments: () => fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name))
      .map((name) => { try { return text("/proc", name, "environ"); } catch { return ""; } }).join(" "),
    node_command_line: (w) => text("/proc", String(w.victim), "cmdline"),
    node_tcp: (w) => said({ port: w.tcp, host: "127.0.0.1" }),
    node_tcp_to_other_address: (w) => said({ port: w.tcp, host: w.address }),
    node_tcp_over_ipv6: (w) => said({ port: w.tcp6, host: "::1" }),
    node_udp: (w) => udp(w.udp),
    node_agent_socket: (w) => said({ path: w.agent }),
    node_own_environment: () => JSON.stringify(process.env),
    node_read_settings_beside_program: (w) => text(w.program, ".env"),
  },
  write: {
    node_create_in_home: (w) => write(w.home, "new-node"),
    node_create_elsewhere: (w) => write(w.outside, "new-node"),
    node_create_beside_program: (w) => write(w.program, "new-node"),
    node_create_in_granted: (w) => write(w.writable, "new-node"),
    node_create_by_link_in_granted: (w) => write(w.writable, "to-outside", "new-node-too"),
    node_change_mode: (w) => fs.chmodSync(path.join(w.home, ".profile"), 0o777),
    node_rename_into_granted: (w) => fs.renameSync(path.join(w.outside, "taken"), path.join(w.writable, "moved")),
    node_link_into_granted: (w) => fs.linkSync(path.join(w.outside, "linked"), path.join(w.writable, "linked")),
    node_remove_file: (w) => fs.rmSync(path.join(w.outside, "removed")),
  },
  reach: {
    node_list_run: () => { if (!fs.readdirSync("/run").length) throw Object.assign(new Error(), { code: "ENOENT" }); },
    node_signal_to_process: (w) => process.kill(w.victim, 0),
    node_signal_to_client: (w) => process.kill(w.client, 0),
    node_terminal: (w) => fs.openSync(w.terminal, "r+"),
    node_daemon: (w) => {
      const code = "for (const one of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(one, () => {}); setTimeout(() => {}, 600000)";
      child.spawn(process.execPath, ["-e", code, w.mark], { detached: true, stdio: "ignore" }).unref();
    },
  },
  works: {
    node_temporary_files: () => write(os.tmpdir(), "mine"),
    node_children: () => run(process.execPath, "-e", "console.log(6 * 7)"),
    node_shell: () => child.execSync("ls / | sort", { encoding: "utf8" }),
    node_workers: () => new Promise((resolve, reject) => {
      const worker = new Worker("process.exit(7)", { eval: true });
      worker.on("exit", resolve);
      worker.on("error", reject);
    }),
    node_localhost: async () => (await dns.lookup("127.0.0.1")).address,
    node_own_program: (w) => text(w.program, "server.mjs").length,
  },
};
const given = { node_read_granted: ["read"], node_create_in_granted: ["write"] };
const either = { node_tcp: ["loopback"], node_tcp_over_ipv6: ["loopback"], node_udp: ["loopback"] };
for (const name of ["node_tcp", "node_tcp_to_other_address", "node_tcp_over_ipv6", "node_udp"]) given[name] = ["all"];
const probes = {};
for (const [kind, all] of Object.entries(sorted)) {
  for (const [name, attempt] of Object.entries(all)) {
    const who = name === "node_own_environment" ? "nobody" : "both";
    const always = kind === "works" ? ["default", "read", "write", "loopback", "all"] : [];
    probes[name] = { kind, attempt, given: given[name] ?? always, either: either[name] ?? [], who };
  }
}
if (process.argv[2] === "--list") {
  const row = ([name, { kind, given, either, who }]) => [name, [kind, given, either, who]];
  console.log(JSON.stringify(Object.fromEntries(Object.entries(probes).map(row))));
  process.exit();
}

async function answer(method, params) {
  switch (method) {
    case "initialize":
      return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "probes", version: "1" } };
    case "ping":
      return {};
    case "tools/list":
      return { tools: [{ name: "probe", inputSchema: { type: "object" } }] };
    case "tools/call": {
      const { name, world } = params.arguments;
      const { kind, attempt } = probes[name];
      const said = { kind };
      try {
        said.got = String(await attempt(world));
      } catch (error) {
        if (error.code || error.status) said.refused = String(error.code ?? `exit ${error.status}`);
        else said.broken = String(error);
      }
      return { content: [{ type: "text", text: JSON.stringify(said) }] };
    }
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.id === undefined) continue;
  const result = await answer(message.method, message.params ?? {});
  const reply = result ? { result } : { error: { code: -32601, message: "no such method" } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...reply }));
}
