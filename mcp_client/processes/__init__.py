"""Processes: started without a shell, and never left behind, with all that they started.

::

    commands.py        the file of a command, its variables, its default name
    process.py         a process and all that it started, and its last lines of stderr
    new_process.py     chooses how a process is run
    loop_process.py    a process whose pipes the event loop watches
    thread_process.py  a process whose pipes threads read and write
    windows_job.py     a process tree on Windows
    process_id.py      whether a process of another program still runs
    orphan_guard.py    ends the servers if the program itself is killed
"""
