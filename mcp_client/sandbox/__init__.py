"""What a server over stdio can reach: loaded only where ``sandbox=`` is given.

::

    sandbox.py           ``Sandbox``: what the host grants
    grants.py            everything that is granted, as real paths, fixed before approval
    program.py           what a program may read unasked, by its command
    program_caches.py    what npx and uvx find of their caches
    visible_paths.py     what is mounted, and the links on the way to it
    bubblewrap.py        the sandbox itself, made by the program bwrap (Linux)
    seccomp.py           the filter of system calls inside
    confined_group.py    the processes: started, asked to end, and gone
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "sandbox": ["Sandbox"],
    },
)
