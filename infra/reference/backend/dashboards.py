"""Dashboards and their layouts, with one file each under the data root."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.reference.backend.stamps import new_id, now
from infra.reference.backend.storage import read_json, write_json

FIRST_NAME = "Dashboard 1"
_LISTED = (
    "id",
    "name",
    "auto_named",
    "created_at",
    "updated_at",
    "thumbnail",
    "preview_updated_at",
    "preview_signature",
)


def _empty_layout() -> dict[str, Any]:
    return {
        "cards": {},
        "view_cards": {},
        "browser_cards": {},
        "workflow_cards": {},
        "workflows_hub": None,
        "expanded_session_ids": [],
    }


class Dashboards:
    """All dashboards of one data root; a first one is made when there is none."""

    def __init__(self, data_root: Path) -> None:
        self._folder = data_root / "dashboards"
        self._all: dict[str, dict[str, Any]] = {}
        for path in sorted(self._folder.glob("*.json")):
            found = read_json(path)
            if isinstance(found, dict) and "id" in found:
                self._all[found["id"]] = found
        if not self._all:
            self._make(FIRST_NAME)

    def list_all(self) -> list[dict[str, Any]]:
        """Every dashboard without its layout, the last changed first."""
        ordered = sorted(self._all.values(), key=lambda item: item["updated_at"], reverse=True)
        return [{field: item[field] for field in _LISTED} for item in ordered]

    def find(self, dashboard_id: str) -> dict[str, Any] | None:
        """A dashboard with its layout, or None."""
        return self._all.get(dashboard_id)

    def change(self, dashboard_id: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Apply a PUT: the layout is replaced as a whole, a name given by hand is no longer automatic."""
        dashboard = self._all.get(dashboard_id)
        if dashboard is None:
            return None
        if isinstance(body.get("layout"), dict):
            dashboard["layout"] = {**_empty_layout(), **body["layout"]}
        if isinstance(body.get("name"), str):
            dashboard.update(name=body["name"], auto_named=False)
        for field in ("thumbnail", "preview_signature"):
            if field in body:
                dashboard[field] = body[field]
        self._save(dashboard)
        return dashboard

    def cards(self, dashboard_id: str) -> dict[str, dict[str, Any]]:
        """The browser cards of a dashboard by id; empty for an unknown dashboard."""
        dashboard = self._all.get(dashboard_id)
        found = dashboard["layout"].get("browser_cards") if dashboard else None
        return found if isinstance(found, dict) else {}

    def add_card(self, dashboard_id: str, card: dict[str, Any]) -> None:
        """Put a browser card into a dashboard's layout."""
        dashboard = self._all[dashboard_id]
        dashboard["layout"]["browser_cards"] = {**self.cards(dashboard_id), card["browser_id"]: card}
        self._save(dashboard)

    def drop_card(self, dashboard_id: str, browser_id: str) -> None:
        """Take a browser card out of a dashboard's layout; an absent one is fine."""
        dashboard = self._all[dashboard_id]
        cards = self.cards(dashboard_id)
        dashboard["layout"]["browser_cards"] = {key: card for key, card in cards.items() if key != browser_id}
        self._save(dashboard)

    def _make(self, name: str) -> None:
        moment = now()
        self._save(
            {
                "id": new_id(),
                "name": name,
                "auto_named": False,
                "created_at": moment,
                "updated_at": moment,
                "layout": _empty_layout(),
                "thumbnail": None,
                "preview_updated_at": None,
                "preview_signature": None,
            },
        )

    def _save(self, dashboard: dict[str, Any]) -> None:
        dashboard["updated_at"] = now()
        self._all[dashboard["id"]] = dashboard
        write_json(self._folder / f"{dashboard['id']}.json", dashboard)
