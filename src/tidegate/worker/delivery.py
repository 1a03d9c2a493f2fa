"""Delivery: results go out over the configured channels. Only this module imports apprise.

The gate first decides whether a result may go out (PRE_OUTPUT). After a kill in between, the result is delivered
again: it arrives at least once, or its failure is reported.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.config.channels import ChannelSettings
from tidegate.policy.levels import Level
from tidegate.records.jsonable import jsonable

ATTEMPTS_MAX = 12
"""With back-off, a little more than a day."""

_log = logging.getLogger("tidegate.channel")


@dataclass(frozen=True, slots=True)
class Notification:
    """A result to deliver. subject: the job's name; "" for the trigger. level: of the text."""

    agent: str
    subject: str
    text: str
    level: Level
    at: datetime


class DeliveryError(Exception):
    """A message could not be delivered: why, in our own words. lasting: until the owner changes something."""

    def __init__(self, reason: str, *, lasting: bool = False) -> None:
        super().__init__(reason)
        self.lasting = lasting


Send = Callable[[ChannelSettings, Notification], None]
"""Delivers a message. Raises: DeliveryError."""


def back_off(attempts: int) -> timedelta:
    """Return how long to wait after failed attempts: a minute, then twice as long each time, up to six hours."""
    return min(timedelta(minutes=2 ** min(attempts - 1, 12)), timedelta(hours=6))


def send(channel: ChannelSettings, message: Notification, environ: Mapping[str, str] = os.environ) -> None:
    """Deliver a message. Raises: DeliveryError."""
    match channel.kind:
        case "log":
            _log.warning("%s", json.dumps(_fields(message)))
        case "file":
            _append(channel, message)
        case "apprise":
            _notify(channel, message, environ)
        case _:
            raise DeliveryError("the channel's kind is unknown", lasting=True)


def _fields(message: Notification) -> dict[str, str]:
    fields: dict[str, str] = jsonable(
        {
            "at": message.at,
            "agent": message.agent,
            "job": message.subject,
            "level": message.level,
            "text": message.text,
        }
    )
    return fields


def _append(channel: ChannelSettings, message: Notification) -> None:
    """Append one line of JSON in ASCII: no text can end it or begin another."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    data = (json.dumps(_fields(message)) + "\n").encode("ascii")
    try:
        descriptor = os.open(str(channel.path), flags, 0o600)
        try:
            written = os.write(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError:
        raise DeliveryError("the file cannot be written") from None
    if written != len(data):
        raise DeliveryError("the file cannot be written in full")


def _notify(channel: ChannelSettings, message: Notification, environ: Mapping[str, str]) -> None:
    try:
        import apprise
    except ModuleNotFoundError:
        raise DeliveryError("apprise is not installed; it comes with tidegate[agent]", lasting=True) from None
    url = environ.get(channel.url_env, "") if channel.url_env else channel.url
    if not url:
        raise DeliveryError(f"the environment variable {channel.url_env} is not set", lasting=True)
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # P12: it would log URLs and texts
    try:
        # Plain text: no escapes, no templates, no markup, whatever it contains.
        asset = apprise.AppriseAsset(interpret_escapes=False, interpret_emojis=False, storage_mode="memory")
        service = apprise.Apprise(asset=asset)
        if not service.add(url):
            raise DeliveryError("apprise does not know this kind of URL", lasting=True)
        title = f"{message.agent}: {message.subject}" if message.subject else message.agent
        done = service.notify(body=message.text, title=title, body_format=apprise.NotifyFormat.TEXT)
    except DeliveryError:
        raise
    except Exception as error:  # noqa: BLE001  any of a hundred services
        _log.info("apprise failed: %s", type(error).__name__)
        done = None
    if not done:
        raise DeliveryError("the service did not accept the message")
