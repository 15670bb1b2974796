from __future__ import annotations

import sys

import pytest

from broker.errors import UsageError
from workers.netns import enter, refuse_unprivileged


@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
def test_a_namespace_that_is_not_there_is_named_with_the_command_that_makes_it() -> None:
    with pytest.raises(UsageError, match="there is no network namespace bv3-none") as caught:
        enter("bv3-none")
    assert caught.value.hint == "sudo bv3-box netns create bv3-none"


def test_a_system_without_namespaces_says_so_with_another_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.netns.sys.platform", "darwin")
    with pytest.raises(UsageError, match="Linux's, this is darwin") as caught:
        enter("bv3-none")
    assert 'isolation = "host"' in str(caught.value.hint)


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.netns.os.geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="creating a network namespace needs root"):
        refuse_unprivileged("creating a network namespace")
