"""What the parts of the double share."""

from dataclasses import dataclass, field

from infra.reference.backend.commands import Commands, Reply
from infra.reference.backend.dashboards import Dashboards
from infra.reference.backend.hub import Hub
from infra.reference.backend.injection import Injection, Natures
from infra.reference.backend.metrics import Metrics
from infra.reference.backend.models import Models
from infra.reference.backend.sessions import Sessions
from infra.reference.backend.settings import Settings
from infra.reference.truth import TruthBook


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One running double: its state and its ways out."""

    settings: Settings
    hub: Hub
    commands: Commands
    dashboards: Dashboards
    sessions: Sessions
    models: Models
    metrics: Metrics
    truth: TruthBook
    natures: Natures
    # What each session meets, by its id, for as long as it is known.
    injections: dict[str, Injection] = field(default_factory=dict)

    def blind(self, action: str, browser_id: str) -> Reply | None:
        """What is answered in a card's place to anybody but the agent; None: ask the renderer."""
        child = next((one for one in self.sessions.list_all() if one.browser_id == browser_id), None)
        injection = self.injections.get(str(child.parent_session_id)) if child else None
        return injection.blinds(action) if injection else None


def make_services(settings: Settings) -> Services:
    """Everything a double needs, read from its data root."""
    root = settings.data_root
    hub = Hub(root)
    commands = Commands(hub, scale=settings.leash_scale)
    return Services(
        settings=settings,
        hub=hub,
        commands=commands,
        dashboards=Dashboards(root),
        sessions=Sessions(root),
        models=Models(settings.router_url, scale=settings.leash_scale),
        metrics=Metrics(root),
        truth=TruthBook(path=root / "truth.jsonl", mode=settings.mode, evaluate=commands.run),
        natures=Natures(settings.sites_url),
    )
