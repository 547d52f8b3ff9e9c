"""From bytes to structures: single structures by grammar, many by record type, and the resulting arrays.

`native` finds and calls the kernels in C, ``source`` contains them, `build` compiles them. The reference
implementations in Python with which tests compare them are in ``tests/unit/native/reference``.
"""
