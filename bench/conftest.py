"""The modules that benchmarks share are found, as they are by a script in this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
