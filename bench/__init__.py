"""Named workloads, as ratios to the Java server run beside ours.

`run.py` is the way in. Both servers are started by what the compatibility tests start theirs with; that
folder has a dash in its name and so is no package, which is why its modules are put within reach here.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "compat-tests"))
