"""Code mode: a model writes a script that calls tools, in place of one call after another.

2026-07-28 ``develop/clients/client-best-practices``: approving a script does not approve its calls.
So each call of a script goes through the gate by itself, as a ``ToolCall`` whose ``origin`` is
"code" and whose ``script`` is the code with the line that calls. Rules, remembered answers, pins,
the audit and the journal hold for it as for any other call. ``Allow(remember="script")`` is a yes
to this tool for the rest of the run; a rule that allows and names no origin is not for scripts.

A model is given it by ``toolset(tools, code=True)``, a person by ``mcp-client run``. It needs the
package pydantic-monty: ``pip install "mcp-client-host[code]"``.

**In the script** each server is an object, and each tool an async function of it that takes keyword
arguments and returns the structured content, else the text. Names that Python does not take are
spelled as ``describe_tools`` spells them. What a call leads to otherwise is an exception:
``CallDenied``, ``CallTimeout``, ``ToolFailed``, ``InvalidArguments`` or ``CallFailed``. The
language is a part of Python: no class inherits, there are no generators, and a few modules can be
imported.

**What holds.** A script runs in a process of its own, without files, network, environment or clock
(see ``interpreter``). It ends at ``Limits(script_calls=, script_memory=, script_output=)`` and
``Timeouts(script=)``, which it cannot catch; the model is told which it was, what was printed until
then, and how many calls were sent. Cancelling the run cancels its calls. Nothing that a server says
becomes code: tools are looked up by name when they are called.

**What does not.** The process is not confined by the operating system beyond that: it is the
interpreter that offers nothing. A script can send to one server what another one returned, if both
calls are approved. Where the host is killed, a script that computes goes on for up to 20 seconds.
The time of a login counts for ``Timeouts(script=)``.

**Waiting for people.** With ``ApprovalQueue(wait=0)`` a run of which every call that it waits for
waits for approval is paused (see ``run`` and ``run_log``). ``Toolset.resume`` goes on with it in
any process that has the state.

The modules::

    run.py          one run of a script: each call passes the gate
    run_log.py      what a run was told so far, so that another process can continue it
    interpreter.py  the process in which a script runs
    signatures.py   the tools as typed Python
    identifiers.py  the names of servers and tools in a script
    values.py       the values that pass between a script and the host
"""
