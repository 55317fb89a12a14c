"""The base of all other rooms. Nothing here knows MCP.

::

    lazy.py             packages whose names are loaded when they are first used; their help()
    version.py          the version of this package
    limits.py           ``Timeouts`` and ``Limits``, and what they defend against
    option_names.py     unknown names of options, with a suggestion
    frozen.py           frozen dataclasses that take little time
    session_context.py  the values that every part of one session needs
    event_loop.py       asyncio or trio
    background.py       work that belongs to a connection; a lock for tasks of any event loop
    callbacks.py        calls the host's callbacks, in order
    watch.py            notifies tasks and threads of changes
    daemon_thread.py    starts threads, which no program waits for when it ends
    portal.py           an event loop in a thread, and Ctrl-C, for programs without a loop
    deadline_timer.py   a timer that lets the loop read what has arrived before it rings
    pausable_clock.py   the time of one connection, paused while a person is asked
    backoff.py          when a failed attempt is repeated
    windows_lock.py     a file lock on Windows
    atomic_file.py      files with one writer at a time, replaced as a whole
    directory.py        a directory for such files
    storage.py          JSON objects by kind and key
    json_file.py        a storage in one JSON file
    sqlite_file.py      a storage in one SQLite file
    strict_json.py      parses JSON strictly
    safe_text.py        text from a server, made safe for a person to look at
    masking.py          hides secrets in text from outside
    secret_names.py     the names that secrets have
    urls.py             keys in the path of a URL; whether its host is this machine
    python_source.py    writes Python source from any text
    console.py          the terminal, for one dialogue at a time
    console_layout.py   a question as lines of a terminal
    bundle.py           the hook for PyInstaller
"""
