"""The page: facts and tables in Python, words and markup in a template, looks in a style sheet."""
