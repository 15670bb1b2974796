"""Every line the double logs, in the product's words, and the format they are printed in."""

import logging
from dataclasses import dataclass
from typing import Any

_FAST_PATH = "backend.apps.agents.browser.browser_fast_path"
_RUN = "backend.apps.agents.manager.run_browser_fast_path"
_AGENT = "backend.apps.agents.browser.browser_agent"
_PRESTAGE = "backend.apps.agents.browser.browser_prestage"
_SEND = "backend.apps.agents.browser.browser_send_script"
_METRICS = "backend.apps.agents.browser.browser_metrics"
_TURN = "backend.apps.agents.manager.run.TurnRunner"
_ROUTER = "backend.apps.nine_router.process"

TOKEN_MASK = "<REDACTED:openswarm-token>"  # noqa: S105  # what stands where a token was


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One kind of line: who says it, how loud, and its template (``str.format``)."""

    logger: str
    template: str
    level: int = logging.INFO

    def log(self, **values: object) -> None:
        """Print the line with its values filled in."""
        logging.getLogger(self.logger).log(self.level, "%s", self.template.format(**values))


AUTH_TOKEN = Line(logger="backend.auth", template="auth: {what} token from {path}")
AUTH_REFUSED = Line(
    logger="backend.auth",
    level=logging.WARNING,
    template="auth: rejecting {method} {path} (origin={origin}, no valid token)",
)
STARTING = Line(logger="backend.apps.agents.agents", template="Agents sub-app starting")
RESTORED = Line(logger="backend.apps.agents.manager.session.SessionPersistence", template="Restored {count} session(s)")
DELETED = Line(
    logger="backend.apps.agents.manager.session.SessionLifecycle",
    template="Session {session} permanently deleted",
)
ROUTER_ADOPTED = Line(
    logger=_ROUTER,
    template="9Router already healthy on port {port}; adopting it "
    "(set OPENSWARM_ROUTER_TAKEOVER=1 to force a fresh spawn)",
)
ROUTER_ABSENT = Line(
    logger=_ROUTER, level=logging.WARNING, template="9Router does not answer at {url}; going on without it"
)
TURN_FAILED = Line(
    logger="backend.apps.agents.agents",
    level=logging.ERROR,
    template="turn of session {session} failed ({kind}: {error})",
)
PREFLIGHT = Line(
    logger="backend.apps.agents.core.mcp_preflight",
    template="preflight: classifier failed ({error}); failing open",
)

CLASSIFIED = Line(
    logger=_FAST_PATH,
    template="[browser-fast-path] classifier: {verdict} brief={chars}ch model={model} in {ms}ms",
)
UNCLASSIFIED = Line(
    logger=_FAST_PATH,
    level=logging.WARNING,
    template="[browser-fast-path] classifier unavailable, normal path: {error}",
)
DISPATCHED = Line(logger=_RUN, template="[browser-fast-path] direct dispatch for session {session} ({verdict})")
ENTRY = Line(logger=_RUN, template="[browser-cold] brief entry url for {session}: {url}")
SEND_ZONE = Line(
    logger=_RUN,
    template="[browser-fast-path] send-zone failure for {session}; payload probe before any retry",
)
SEND_PROBE = Line(logger=_RUN, template="[browser-fast-path] send-probe verdict={verdict} for {session}")
RECOVERY = Line(logger=_RUN, template="[browser-fast-path] first dispatch failed for {session}; one recovery dispatch")
DONE = Line(
    logger=_RUN,
    template="[browser-fast-path] session {session} done: path={path} reply={chars}ch in {ms}ms",
)

REFUSED = Line(
    logger=_AGENT,
    level=logging.WARNING,
    template="[browser-agent] dispatch refused: no dashboard after reconnect wait",
)
CARD_OPENED = Line(logger=_AGENT, template="[browser-cold] new card {card} opens at brief entry {url}")
CARD_REUSED = Line(
    logger=_AGENT,
    template="[browser-agent] reusing same-host card {card} instead of stacking another webview",
)
SPAWN_ACK = Line(logger=_AGENT, template="[browser-spawn-ack] {card} rebroadcast after silent mount; alive={alive}")
MOUNTED = Line(logger=_AGENT, template="[browser-cold] mount poll {ms}ms for {card}")
SLOW = Line(logger=_AGENT, template="[browser-slow] {tool} took {ms}ms{gate} -> {card}")
ACTION = Line(logger=_AGENT, template="[browser-action] {tool}: {summary}  -> {card}")
DEAD_CARD = Line(
    logger=_AGENT,
    level=logging.WARNING,
    template="[browser-agent {child}] card {card} perceives dead after prestage "
    "(no url/elements, confirming probe empty); evicting + recovering early",
)
PRESTAGE_OUTER = Line(logger=_AGENT, template="[browser-prestage] outer skip ({error})")
SEND_OUTER = Line(logger=_AGENT, template="[browser-sendscript] outer skip ({kind}: {error})")
REPLAY_CHECK = Line(logger=_AGENT, template="[browser-skills] dispatch replay check: host={host!r} removal=False")
NO_SKILL = Line(logger=_AGENT, template="[browser-skills] no skill for host={host!r} after 0 turn(s)")
DRY_REPORT = Line(
    logger=_AGENT,
    template="[dryrun-report] armed=1 composer={composer:d} opener={opener:d} textboxes={textboxes} "
    "filled={filled:d} url={url}",
)
GHOST = Line(
    logger=_AGENT,
    level=logging.WARNING,
    template="[browser-agent {child}] completion gate caught a ghost: model declared done but the send was "
    "never confirmed, so it may not have gone out; check the page before trusting this; reporting as error",
)
BATCHING = Line(
    logger=_AGENT,
    template="[browser-batching {child}] run summary: turns=1 multi_action_turns=0 batch_calls=0 nudges=0 "
    "redundant_reads=0 guard_blocks=0",
)
TIME = Line(
    logger=_AGENT,
    template="[browser-time {child}] wall={wall}ms llm=0ms tools={tools}ms other={other}ms auto_scans=0 "
    "hint_steps=0 tool_errors=0 recovery_attaches=0 rp_violations=0",
)
OUTPUT = Line(
    logger=_AGENT,
    template="[browser-output {child}] out_tokens=0 mean_out_per_turn=0 narration_turns=0/1 trailing_reads=0",
)
RECORD_GATE = Line(
    logger=_AGENT,
    template="[browser-skills] record gate: honest=False informational=False removal=False unconfirmed_send=True",
)
TASK = Line(
    logger=_METRICS,
    template="[browser-metrics] TASK {status} path=llm total={ms}ms turns=1 tools={tools} tok_in=0 tok_out=0 "
    "recurring_errs=[]",
)

PRESTAGE_START = Line(logger=_PRESTAGE, template="[browser-prestage] start url={url}")
PRESTAGE_TIER0 = Line(
    logger=_PRESTAGE,
    template="[browser-prestage] READY tier-0 in {ms}ms: a composer is already on the page, no aux call needed",
)
PRESTAGE_COMPOSE = Line(logger=_PRESTAGE, template="[browser-prestage] compose entry {url} reached a composer")
PRESTAGE_TIER1 = Line(logger=_PRESTAGE, template="[browser-prestage] tier-1: first {thing} is {href}")
PRESTAGE_STEP = Line(
    logger=_PRESTAGE,
    template="[browser-prestage] step {step} plan: perceive={perceive}ms aux={aux}ms reply={reply!r}",
)
PRESTAGE_REPEATED = Line(logger=_PRESTAGE, template="[browser-prestage] repeated step {verb} {target!r}; stopping")
PRESTAGE_UNSETTLED = Line(logger=_PRESTAGE, template="[browser-prestage] nav {url} did not settle; stopping unstaged")
PRESTAGE_READY = Line(logger=_PRESTAGE, template="[browser-prestage] READY after {steps} step(s): {reason}")
PRESTAGE_DONE = Line(logger=_PRESTAGE, template="[browser-prestage] done: steps={steps} url={url} in {ms}ms")
PRESTAGE_SKIPPED = Line(logger=_PRESTAGE, template="[browser-prestage] skipped ({error})")

FILL_TARGET = Line(logger=_SEND, template="[browser-sendscript] fill target {name!r} [{index}] on {url}")
OPENER = Line(logger=_SEND, template="[browser-sendscript] firing via opener {name!r} [{index}]")
WRONG_SURFACE = Line(
    logger=_SEND,
    template="[browser-sendscript] ignoring composer/opener {name!r}: wrong surface for this task",
)
STRUCTURAL = Line(
    logger=_SEND,
    template="[browser-sendscript] structural composer role={role!r} score={score} nearSubmit={near} "
    "reveals={reveals} fillMode={mode} filled+verified",
)
NOT_STRUCTURAL = Line(logger=_SEND, template="[browser-sendscript] structural finder: no usable composer ({reply})")
DECLINED = Line(logger=_SEND, template="[browser-sendscript] decline: {reason}")
FILL_ERRORED = Line(logger=_SEND, template="[browser-sendscript] fill errored ({error}); handing to model untouched")
FILL_UNSEEN = Line(logger=_SEND, template="[browser-sendscript] fill not seen committed; aborting pre-click")
DRYRUN = Line(
    logger=_SEND,
    template="[browser-sendscript] DRYRUN: WOULD send (fill committed, send_button_listed={listed}, "
    "submit_resolved={resolved}, submit_rank={rank}, submit={submit!r}); not clicking",
)
SENT = Line(logger=_SEND, template="[browser-sendscript] done sent_receipt=True delivered=None in {ms}ms")

RETRIED = Line(logger=_TURN, template="[MCP-DEBUG] SystemMessage: {message!r}")
ROUTE_HINT = Line(
    logger=_AGENT,
    template="[browser-route {child}] hint attached at dispatch: host={host} sim=1.00 steps=1 state=probation",
)
STALE_SKILL = Line(
    logger=_AGENT,
    template="[browser-skills] skill on {host} not replayed: step 1 looks irreversible/outward-facing "
    "('Write a post'); running the full agent so the send is confirmed",
)


class _MaskToken(logging.Filter):
    """Takes the token out of every record, uvicorn's access lines included."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(self._mask(value) for value in record.args)
        record.msg = self._mask(record.msg)
        return True

    def _mask(self, value: Any) -> Any:
        return value.replace(self._token, TOKEN_MASK) if isinstance(value, str) else value


def start_logging(token: str) -> None:
    """Send ``backend`` lines to stderr in the product's format, and mask the token in all of them."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(name)s: %(message)s", datefmt="%H:%M:%S"))
    handler.addFilter(_MaskToken(token))
    logger = logging.getLogger("backend")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


def mask_uvicorn(token: str) -> None:
    """Mask the token in uvicorn's own lines; to be called once uvicorn has made its handlers."""
    for name in ("uvicorn", "uvicorn.access"):
        for handler in logging.getLogger(name).handlers:
            handler.addFilter(_MaskToken(token))
