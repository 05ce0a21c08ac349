"""The benchmarks are scripts that import each other by name, as python does for a script's own folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
