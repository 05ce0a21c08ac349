"""The page: tables and facts in Python, text and markup in templates, style in a style sheet."""
