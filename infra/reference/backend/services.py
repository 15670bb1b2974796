"""What the parts of the double share."""

from dataclasses import dataclass

from infra.reference.backend.commands import Commands
from infra.reference.backend.dashboards import Dashboards
from infra.reference.backend.hub import Hub
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


def make_services(settings: Settings) -> Services:
    """Everything a double needs, read from its data root."""
    root = settings.data_root
    hub = Hub(root)
    commands = Commands(hub)
    return Services(
        settings=settings,
        hub=hub,
        commands=commands,
        dashboards=Dashboards(root),
        sessions=Sessions(root),
        models=Models(settings.router_url),
        metrics=Metrics(root),
        truth=TruthBook(path=root / "truth.jsonl", mode=settings.mode, evaluate=commands.run),
    )
