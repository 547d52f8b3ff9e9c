"""From bytes to structures: one at a time by grammar, many at a time by record type, and the arrays that they become.

`native` finds and calls the kernels in C, ``source`` has them, `build` compiles them. Reference implementations in
Python, with which tests compare them, are in ``tests/unit/native/reference``.
"""
