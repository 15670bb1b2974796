"""What a stack's programs get of this process: what they need, no secret, and room for the host lock."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from workers.stack.parts import _clean_environment


def test_programs_of_a_stack_get_no_key_account_or_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SOME_API_KEY", "OSW_CANARY_X_HANDLE", "BV3_DATABASE_URL", "PYTHONPATH", "OSW_SENDSCRIPT_DRYRUN"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    kept = _clean_environment()
    assert "secret" not in kept.values()
    assert {"PATH", "LC_ALL", "HTTPS_PROXY"} <= kept.keys()


BIND = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
from broker.errors import StackError
from workers.lock import bind_host_lock
try:
    bind_host_lock("bv3-test-of-few-files").release()
except StackError as error:
    print(error.message)
else:
    print("bound")
"""


@pytest.mark.parametrize(
    ("hard", "said"), [(1024, "bound"), (256, "no more than 256 files may be open here")], ids=["may rise", "may not"]
)
def test_host_lock_is_bound_where_a_terminal_allows_few_files_or_says_why_not(hard: int, said: str) -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= hard
    done = subprocess.run(
        [sys.executable, "-c", BIND, str(hard)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == said
