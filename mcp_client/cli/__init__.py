"""The command ``mcp-client``: tools, resources and prompts of MCP servers from a shell.

::

    main.py              runs a command, and decides how it ends
    parser.py            the commands with their arguments and options
    target.py            what ``TARGET`` is: a URL, a server of a config file, or a command
    session.py           the session and the files that a command uses, by its options
    session_commands.py  the commands that use one server: tools, call, search, resources, prompts
    description.py       a tool in full: its arguments, and an example of a call
    tool_arguments.py    the arguments of a tool, as ``key=value`` words and as a line of types
    run_command.py       ``run``: a script of the user in the sandbox of scripts of models
    decide.py            ``desk`` and ``confirm``: approvals for other programs and commands
    file_commands.py     the commands that work on files: stubs, audit, decisions, pins, servers
    login.py             ``login`` and ``logout``
    doctor.py            ``doctor``: how a server behaves, and what is wrong with it
    shell.py             ``shell``: one session for many commands
    completion.py        ``completion``: a script for bash, zsh or fish
    screen.py            colours, tables, bars and pictures
    output.py            standard output and standard error
    exits.py             exit codes, and errors as text or JSON
    signals.py           standard input, the terminal, and Ctrl-C, SIGTERM and SIGHUP
"""
