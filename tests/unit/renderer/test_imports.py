"""The renderer is a process of its own, on a machine that has little to spare."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LIST = "import json, sys, workers.renderer.__main__; print(json.dumps(sorted(sys.modules)))"


def test_it_brings_nothing_of_the_farm_with_it() -> None:
    done = subprocess.run([sys.executable, "-c", LIST], check=True, capture_output=True, text=True, cwd=ROOT)
    names = json.loads(done.stdout)
    farm = {name for name in names if name.split(".")[0] in {"broker", "scheduler", "grader", "infra", "workers"}}
    assert {name for name in farm if not name.startswith("workers.renderer")} == {"workers"}
    assert not {"celery", "sqlalchemy", "pydantic", "redis"} & set(names)
