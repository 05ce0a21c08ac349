"""BO-FM and its kernels in Optuna, Ray Tune and BoTorch, one module each.

Install the tools by extras: `pip install 'fmnas[optuna]'`, `'fmnas[tune]'` or `'fmnas[botorch]'`. ranges.py converts
their parameters; docs/integrations.md has examples.
"""
