"""Opening the configured model."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.agent.prompt import Model
from tidegate.agent.scripted import SCRIPT, ScriptedModel, read_script
from tidegate.config.settings import ChatSettings
from tidegate.errors import InvalidArgument


def open_configured(settings: ChatSettings) -> Model:
    """Return the configured model. Raises: InvalidArgument, which says what to set."""
    name = settings.model
    if name is None:
        raise InvalidArgument(
            "chat.model: no model is configured; set chat.model in config.toml, or TIDEGATE_CHAT_MODEL, to "
            "provider:model, or to the name of a model at chat.base_url; `scripted` needs no provider",
            argument="chat.model",
        )
    if name == "scripted" or name.startswith("scripted:"):
        path = name.partition(":")[2]
        return ScriptedModel(read_script(Path(path)) if path else SCRIPT)
    from tidegate.agent.model import open_model  # loads the library only when needed

    key = os.environ.get(settings.api_key_env) if settings.api_key_env else None
    if settings.api_key_env and not key:
        raise InvalidArgument(
            f"chat.api_key_env: {settings.api_key_env} is not set; set this environment variable to the key",
            argument="chat.api_key_env",
        )
    return open_model(name, settings.base_url, key)
