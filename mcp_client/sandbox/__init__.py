"""What a server over stdio can reach: loaded only where ``sandbox=`` is given.

::

    sandbox.py     Sandbox: what is granted
    engine.py      the seam: what each engine implements, and which of them is taken
    bubblewrap.py  namespaces, by the program bwrap (Linux)
    landlock.py    rules of the kernel, which launcher.py enters, and a filter by seccomp.py (Linux)
    system.py      what the system's programs are made of (Linux)
"""
