"""Agent sessions, parents and browser children alike, and what is kept of them on disk."""

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from infra.reference.backend.stamps import new_id, now
from infra.reference.backend.storage import read_json, write_json

Status = Literal["running", "waiting_approval", "completed", "error", "stopped"]
TERMINAL: frozenset[Status] = frozenset({"completed", "error", "stopped"})
CHILD_MODE = "browser-agent"
PREVIEW_CHARS = 120
_MESSAGE_DEFAULTS: dict[str, Any] = {
    "context_paths": None,
    "attached_skills": None,
    "forced_tools": None,
    "images": None,
    "hidden": False,
    "client_message_id": None,
    "elapsed_ms": None,
    "tokens": None,
    "tool_count": None,
    "input_tokens": None,
}


# What a session is allowed when its launch names nothing.
_TOOLS = ("Read", "Edit", "Write", "Bash", "Glob", "Grep", "WebSearch", "WebFetch")
# What the product keeps of a session beside what the double works with; no harness reads it, but it is there.
_UNUSED: dict[str, Any] = {
    "sdk_session_id": None,
    "repo_url": None,
    "branch": "main",
    "first_response_at": None,
    "approval_decisions": [],
    "agent_active_ms": 0,
    "time_per_model": {},
    "tool_latencies": {},
    "browser_domains": [],
    "tool_group_meta": {},
    "workflow_run_id": None,
    "workflow_edit_id": None,
    "workflow_test_state": None,
    "memory_recalled": False,
    "memory_learned": False,
    "needs_fork": False,
    "needs_fresh_session": False,
    "pending_continuation": False,
    "pending_continuation_prompt": None,
    "active_mcps": [],
    "framework_overhead_tokens": 0,
    "compact_threshold_pct": 0.65,
    "compact_abs_ceiling_tokens": 180000,
    "compacted_through_msg_id": None,
    "compacted_summary": None,
    "compacted_summary_through": None,
    "context_soft_cap_pct": 0.9,
    "context_window": 1000000,
    "thinking_level": "auto",
}


@dataclass(slots=True, kw_only=True)
class Session:
    """One session; a child has the mode ``browser-agent`` and names its parent."""

    id: str = field(default_factory=new_id)
    name: str = ""
    status: Status = "running"
    provider: str = "anthropic"
    model: str = "sonnet"
    mode: str = "agent"
    system_prompt: str | None = None
    allowed_tools: list[str] = field(default_factory=list)
    read_only: bool = False
    max_turns: int | None = None
    created_at: str = field(default_factory=now)
    closed_at: str | None = None
    messages: list[dict[str, Any]] = field(default_factory=list)
    dashboard_id: str | None = None
    browser_id: str | None = None
    parent_session_id: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the status is terminal."""
        return self.status in TERMINAL

    def add_message(self, role: str, content: object, **extra: object) -> dict[str, Any]:
        """Append a message and return it in the product's shape."""
        message = {
            "id": new_id(),
            "role": role,
            "content": content,
            "timestamp": now(),
            "branch_id": "main",
            "parent_id": None,
            **_MESSAGE_DEFAULTS,
            **extra,
        }
        self.messages.append(message)
        return message

    def dump(self) -> dict[str, Any]:
        """The whole session as the interface shows it."""
        first = {"id": "main", "parent_branch_id": None, "fork_point_message_id": None, "created_at": self.created_at}
        return {
            **copy.deepcopy(_UNUSED),
            "id": self.id,
            "name": self.name,
            "status": self.status,
            "provider": self.provider,
            "model": self.model,
            "mode": self.mode,
            "system_prompt": self.system_prompt,
            "allowed_tools": list(self.allowed_tools or _TOOLS),
            "read_only": self.read_only,
            "max_turns": self.max_turns,
            "cwd": "/",
            "branches": {"main": first},
            "created_at": self.created_at,
            "closed_at": self.closed_at,
            "cost_usd": 0.0,
            "tokens": {"input": 0, "output": 0},
            "messages": list(self.messages),
            "pending_approvals": [],
            "active_branch_id": "main",
            "dashboard_id": self.dashboard_id,
            "browser_id": self.browser_id,
            "parent_session_id": self.parent_session_id,
        }

    def summarise(self) -> dict[str, Any]:
        """The session without its messages, as lists and status pushes show it."""
        texts = [str(message["content"]) for message in self.messages]
        users = [str(message["content"]) for message in self.messages if message["role"] == "user"]
        return {
            **self.dump(),
            "messages": [],
            "last_message_preview": texts[-1][:PREVIEW_CHARS] if texts else "",
            "first_user_message": users[0] if users else "",
            "message_count": len(texts),
        }


class Sessions:
    """All sessions of one data root; those of an earlier process come back as they ended."""

    def __init__(self, data_root: Path) -> None:
        self._folder = data_root / "agents" / "sessions"
        self._all: dict[str, Session] = {}
        for path in sorted(self._folder.glob("*.json")):
            self._restore(read_json(path))

    def list_all(self) -> list[Session]:
        """Every session, oldest first."""
        return list(self._all.values())

    def find(self, session_id: str) -> Session | None:
        """A session by id, or None."""
        return self._all.get(session_id)

    def children(self, session_id: str) -> list[Session]:
        """The browser children of a session, oldest first; they outlive it."""
        return [session for session in self.list_all() if session.parent_session_id == session_id]

    def add(self, session: Session) -> Session:
        """Take a session in."""
        self._all[session.id] = session
        return session

    def save(self, session: Session) -> None:
        """Write a session to disk, unless it was deleted meanwhile."""
        if session.id in self._all:
            write_json(self._folder / f"{session.id}.json", session.dump())

    def delete(self, session_id: str) -> bool:
        """Forget one session, in memory and on disk; its children stay. False when it was unknown."""
        (self._folder / f"{session_id}.json").unlink(missing_ok=True)
        return self._all.pop(session_id, None) is not None

    def _restore(self, found: Any) -> None:
        if not isinstance(found, dict):
            return
        known = {name: found[name] for name in Session.__slots__ if name in found}
        session = Session(**known)
        if not session.ended:
            session.status = "stopped"
        self._all[session.id] = session
