"""Code mode: a model writes a script that calls tools, in place of one call after another.

2026-07-28 ``develop/clients/client-best-practices``: approving a script does not approve its calls.
So each call of a script passes the gate by itself. It is a ``ToolCall`` whose ``origin`` is "code"
and whose ``script`` is the code with the line that calls. Rules, remembered decisions, pins, the
audit and the journal apply to it as to any other call. ``Allow(remember="script")`` approves this
tool for the rest of the run; an allow rule that names no origin does not match scripts.

A model gets it by ``toolset(tools, code=True)``, a person by ``mcp-client run``. It needs the
package pydantic-monty: ``pip install "mcp-client-host[code]"``.

**In the script** each server is an object, and each tool an async function of it. The function
takes keyword arguments and returns the structured content, else the text. Names that Python does
not take are changed as ``describe_tools`` shows them. A call that fails raises an exception:
``CallDenied``, ``CallTimeout``, ``ToolFailed``, ``InvalidArguments`` or ``CallFailed``. The
language is a part of Python: no class inherits, there are no generators, and a few modules can be
imported.

**Guarantees.** A script runs in a process of its own, without files, network, environment or clock
(see ``interpreter``). It ends at ``Limits(script_calls=, script_memory=, script_output=)`` and
``Timeouts(script=)``, which it cannot catch. Then the model gets the limit, the output so far, and
the number of calls that were sent. Cancelling the run cancels its calls. No text of a server
becomes code: tools are looked up by name when they are called.

**Limits.** The process is not confined by the operating system beyond that: it is the interpreter
that offers nothing. A script can send to one server what another one returned, if both calls are
approved. If the host is killed, a script that computes runs on for up to 20 seconds. The time of a
login counts for ``Timeouts(script=)``.

**Waiting for people.** With ``ApprovalQueue(wait=0)`` a run is paused if every call that it waits
for waits for approval (see ``run``). ``Toolset.resume`` continues it in any process
that has the state.

The modules::

    run.py          one run of a script: each call passes the gate; the log to continue it elsewhere
    interpreter.py  the process in which a script runs, and the values that pass to and from it
    bindings.py     the names of servers and tools in a script, and the tools as typed Python
"""
