"""What a server over stdio can reach: loaded only where ``sandbox=`` is given.

::

    sandbox.py         Sandbox: what is granted
    program.py         what a program is made of, found from its command
    engine.py          the seam: what each engine implements, and which of them is taken
    bubblewrap.py      namespaces, by the program bwrap (Linux); visible_paths.py says what is there
    landlock.py        rules of the kernel, which launcher.py enters, and a filter by seccomp.py
    system.py          what the system's programs are made of (Linux)
    sandbox_exec.py    a profile for sandbox-exec (macOS)
    confined_group.py  the processes: started, asked to end, and gone
"""
