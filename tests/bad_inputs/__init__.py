"""A catalogue of malformed inputs, made from good ones, and the judge of what specdec answers.

`python -m bad_inputs` in `tests/` runs all of it, thousands of cases; tests/test_bad_inputs.py runs a part.
"""
