"""The workspace image: what is in it, how it is built, and what other images lack.

One recipe (`images/workspace/`) serves two builders. `check` answers for any image.
"""
