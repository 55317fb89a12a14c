"""A host in a process of its own, as any user: it starts one command in a sandbox by Landlock and
tells what became of it. Input and output are one JSON document."""

from __future__ import annotations

import json
import os
import sys
import time

from mcp_client.sandbox.confined_group import ConfinedGroup
from mcp_client.sandbox.engine import Confined
from mcp_client.sandbox.landlock import ENGINE
from mcp_client.sandbox.sandbox import Sandbox


def main() -> None:
    given = json.loads(sys.stdin.read())
    sandbox = Sandbox(**given["sandbox"])
    lack = ENGINE.lacking(sandbox)
    if lack is not None:
        print(json.dumps({"lacking": lack}))
        return
    argv, env = given["argv"], given["env"]
    launch = ENGINE.confine(Confined(argv, env, "/", sandbox, given["made_of"]))
    tree = ConfinedGroup(launch)
    popen = tree.start(argv, env, "/", None)
    if given["dies"]:
        assert popen.stdout is not None
        line = popen.stdout.readline().decode()
        print(json.dumps({"out": line, "folder": launch.folder}), flush=True)
        os.kill(os.getpid(), 9)
    out, err = popen.communicate(timeout=30)
    until = time.monotonic() + 10
    while not (empty := tree.is_empty()) and time.monotonic() < until:
        time.sleep(0.005)
    tree.close()
    print(
        json.dumps(
            {
                "out": out.decode(),
                "err": err.decode(),
                "code": popen.returncode,
                "empty": empty,
                "folder_is_left": os.path.exists(str(launch.folder)),
                "command": launch.argv,
                "env": dict(launch.env),
            }
        )
    )


main()
