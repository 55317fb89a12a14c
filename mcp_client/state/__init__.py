"""Where things are kept that outlast a session: in memory, in a folder, in a file.

``base`` says what a state is; whoever has a database writes one class::

    base.py       the protocol: JSON objects by kind and key, changed one at a time
    stores.py     what a state hands out: tokens, and what else stands on it
    memory.py     for as long as the object lives
    folder.py     in a folder, a file a kind
    json_file.py  in one file, which every file of this package that holds objects is
"""
