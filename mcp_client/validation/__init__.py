"""Values against their JSON Schemas, within bounds.

::

    strictness.py      how strictly values are validated
    checker.py         whether a value is valid, within bounded time
    usable_schema.py   the part of a schema that can be judged
    schema_repair.py   removes what cannot be judged
    schema_shape.py    what a schema shows without ``jsonschema``, and dialects
    keyword_shapes.py  the shape of each keyword's value
    ecma_patterns.py   regular expressions of ECMA-262 for Python's ``re``
    code_points.py     sets of Unicode characters
    known_cost.py      regular expressions whose search time is known; how large a value is
    fast_path.py       a compiled check of the most common keywords
    engine.py          the verdict of ``jsonschema``
    worker_pool.py     processes for values that take longer
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(__name__, {"strictness": ["Strictness", "Validation"]})
