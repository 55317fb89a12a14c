"""The sandbox of a server over stdio: loaded only if ``sandbox=`` is given.

::

    sandbox.py           ``Sandbox``: the host's grants; the same as real paths, before approval
    program.py           the files a program may always read, by its command; npx, uvx
    visible_paths.py     the mounts, and the links on the way to them
    bubblewrap.py        the sandbox itself, made by the program bwrap (Linux)
    seccomp.py           the filter of system calls inside
    confined_group.py    the processes: started, asked to end, and gone
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(__name__, {"sandbox": ["Sandbox"]})
