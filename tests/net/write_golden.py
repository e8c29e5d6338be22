"""Write the golden runs again, or those named:  python tests/net/write_golden.py [NAME ...]

What differs from before is printed; the commit that changes a golden file says why it may.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from net.runs import FOLDER, differences, runs
from support.net_logs import LOGS


def main() -> None:
    """Run and write."""
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or LOGS:
        begin, path = time.perf_counter(), FOLDER / f"{name}.json"
        with tempfile.TemporaryDirectory() as folder:
            found = json.loads(json.dumps(runs(name, Path(folder))))
        old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        changed = list(differences(old, found))
        text = json.dumps(found, indent=0, separators=(",", ":"), ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        verdicts = {k: v.get("verdict") or v.get("refused") or v["exit"] for k, v in found.items()}
        print(f"{name}: {time.perf_counter() - begin:.1f} s, {len(text):,} bytes, {verdicts}")
        print(*(f"    {x}" for x in changed), sep="\n", end="\n" if changed else "")


if __name__ == "__main__":
    main()
