"""Write the README's outputs anew: `python tests/update_readme.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from readme import README, rewritten

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        README.write_text(rewritten(README.read_text("utf-8"), Path(folder)), "utf-8")
