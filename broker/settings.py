"""Where things are: read from the environment (`BV3_…`), else from the running embedded farm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from broker.errors import ServiceError, UsageError
from broker.home import FarmHome, default_root

_REPOSITORY = Path(__file__).resolve().parent.parent


class Settings(BaseSettings):
    """One frozen view of the environment. Both addresses set means: there is a farm elsewhere."""

    model_config = SettingsConfigDict(
        env_prefix="BV3_",
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        # what a compose file passes on is empty when it is not set
        env_ignore_empty=True,
    )

    broker_url: SecretStr | None = Field(
        None, description="Redis or Valkey of a farm elsewhere: redis://, rediss:// or redis+socket://"
    )
    database_url: SecretStr | None = Field(
        None, description="PostgreSQL of a farm elsewhere: postgresql://user:password@host:port/name"
    )
    home: Path = Field(default_factory=default_root, description="data of the embedded farm")
    runtime: Path = Field(
        _REPOSITORY / ".runtime", description="what `./bv3 setup` brought: browser, editor bundles, manifest.json"
    )
    reference_faults: str = Field(
        "none",
        description="what the embedded farm's reference stacks inject: `none`, `all`, or `name[:share]` between commas",
    )
    reference_natures: str = Field(
        "none",
        description="what the pages of the embedded farm's reference stacks are like: `none`, `all`, `all:rate`, or"
        " `name[:rate]` between commas",
    )
    reference_seed: int = Field(
        0, ge=0, description="the seed that settles which run meets which fault, and which natures"
    )
    leash_scale: float = Field(
        1.0,
        gt=0,
        le=1,
        description="so much of the product's waits and leashes the reference stacks take: above 0, up to 1",
    )

    @field_validator("broker_url")
    @classmethod
    def _is_redis(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not value.get_secret_value().startswith(("redis://", "rediss://", "redis+socket://")):
            raise ValueError("must begin with redis://, rediss:// or redis+socket://")
        return value

    @field_validator("database_url")
    @classmethod
    def _is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not value.get_secret_value().startswith(("postgresql://", "postgresql+psycopg://")):
            raise ValueError("must begin with postgresql://")
        return value

    @property
    def is_embedded(self) -> bool:
        """Whether bv3 brings its own services."""
        return self.broker_url is None and self.database_url is None

    @property
    def farm_home(self) -> FarmHome:
        """The embedded farm's paths."""
        return FarmHome(root=self.home)


class FarmAddress(BaseModel):
    """Where a farm's services listen; what the keeper writes into farm.json."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    database_url: str
    broker_url: str | None = None
    # the same two for who is in another network namespace of this machine; an embedded farm has them
    database_socket_url: str | None = None
    broker_socket_url: str | None = None
    flower_url: str | None = None
    flower_user: str | None = None
    flower_password: str | None = None
    keeper_pid: int | None = None
    boxes: tuple[str, ...] = ()
    stays: bool = False


class Manifest(BaseModel):
    """What set-up found and made (`.runtime/manifest.json`)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    chromium: str
    chromium_args: tuple[str, ...] = ()
    chromium_env: dict[str, str] = {}
    playwright_node: str | None = None
    node: str | None = None
    editors: str


def load_settings() -> Settings:
    """The settings of this process. Raises UsageError naming every bad variable at once."""
    try:
        settings = Settings()
    except ValidationError as error:
        lines = [f"BV3_{'.'.join(map(str, e['loc'])).upper()}: {_say_what(e)}" for e in error.errors()]
        raise UsageError("; ".join(lines), hint="unset it, or see docs/reference/settings.md") from error
    if (settings.broker_url is None) != (settings.database_url is None):
        missing = "BV3_BROKER_URL" if settings.broker_url is None else "BV3_DATABASE_URL"
        raise UsageError(f"{missing} is not set, the other address is", hint="set both, or neither")
    return settings


def _say_what(error: ErrorDetails) -> str:
    # pydantic puts "Value error, " before our own words
    return str(error["ctx"]["error"]) if error["type"] == "value_error" else error["msg"]


def read_address(settings: Settings) -> FarmAddress | None:
    """Where the farm is: the environment's addresses, else the running embedded farm's, else None."""
    if settings.database_url and settings.broker_url:
        return FarmAddress(
            database_url=settings.database_url.get_secret_value(),
            broker_url=settings.broker_url.get_secret_value(),
        )
    try:
        plain: Any = json.loads(settings.farm_home.farm_json.read_text("utf-8"))
        return FarmAddress.model_validate(plain)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ServiceError(
            f"{settings.farm_home.farm_json} can't be read: {type(error).__name__}", hint="bv3-farm status"
        ) from error


def read_manifest(settings: Settings) -> Manifest:
    """What set-up brought. Raises ServiceError when it has not run."""
    path = settings.runtime / "manifest.json"
    try:
        return Manifest.model_validate_json(path.read_text("utf-8"))
    except (OSError, ValidationError) as error:
        raise ServiceError(f"{path} can't be read: {error}", hint="run ./bv3 setup") from error
