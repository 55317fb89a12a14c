"""What a server over stdio can reach: loaded only where ``sandbox=`` is given.

::

    sandbox.py           Sandbox: what the host grants
    grants.py            everything that is granted, as real paths, fixed before anybody is asked
    program.py           what a program may read unasked, by its command
    program_caches.py    what npx and uvx find of their caches
    system.py            what the system's programs are made of
    visible_paths.py     what is mounted, and the links on the way to it
    bubblewrap.py        the sandbox itself, made by the program bwrap (Linux)
    seccomp.py           the filter of system calls inside
    abstract_sockets.py  keeps abstract sockets out of reach where the network is within it
    confined_group.py    the processes: started, asked to end, and gone
"""
