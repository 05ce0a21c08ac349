"""BO-FM in Optuna, Ray Tune and BoTorch, one module each; and trials as studies of Optuna and as runs of DeepCAVE.

Install the tools by extras: `pip install 'fmnas[optuna]'`, `'fmnas[tune]'` or `'fmnas[botorch]'`. ranges.py converts
their parameters, exported.py is what an export takes; docs/integrations.md has examples.
"""
