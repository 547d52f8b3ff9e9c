"""What the library returns: plain data; reports render them, the analysis adds to them.

One module a family of verbs, named after the first of them.
"""
