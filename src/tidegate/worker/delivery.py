"""Delivery: results go out over the configured channels. Only this module imports apprise.

The gate first decides whether a result may go out (PRE_OUTPUT). After a kill in between, the result is delivered
again: it arrives at least once, or its failure is reported.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.config.channels import ChannelSettings
from tidegate.policy.levels import Level
from tidegate.records.jsonable import jsonable

if TYPE_CHECKING:
    import apprise

ATTEMPTS_MAX = 12
"""With back-off, a little more than a day."""

_log = logging.getLogger("tidegate.channel")
_NOT_ACCEPTED = "the service did not accept the message"

# What apprise logs of a failure, of nearly all its services in the same words.
_HTTP = re.compile(r"error=(\d{3})\.?$")
_SMTP = re.compile(r"Socket Exception: .*?\(([45]\d\d), b['\"]")
_PASSING = frozenset({408, 425, 429})
_MEANINGS = {
    400: ": it is malformed or too long",
    401: ": check the key or password in the URL",
    403: ": check the key or password in the URL",
    404: ": check the URL",
    410: ": check the URL",
    413: ": it is too long",
    535: ": check the password in the URL",
}


_NO_WAITING_NO_LINKS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_NEVER = frozenset(
    {
        errno.EACCES,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
"""Why a file can never be written. A full disk may pass, and the owner can create a missing folder."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A result to deliver. subject: the job's name; "" for the trigger. level: of the text.

    progress: what an earlier attempt delivered of it, as its `DeliveryError` said.
    """

    agent: str
    subject: str
    text: str
    level: Level
    at: datetime
    progress: str = ""


class DeliveryError(Exception):
    """A message could not be delivered: why, in our own words.

    lasting: until the owner changes something. final: no later attempt can succeed. progress: how much of the message
    was delivered, for the next attempt, which leaves it out.
    """

    def __init__(self, reason: str, *, lasting: bool = False, final: bool = False, progress: str = "") -> None:
        super().__init__(reason)
        self.lasting = lasting or final
        self.final = final
        self.progress = progress


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
        case "file" if channel.path is not None:
            _append(channel.path, message)
        case "apprise":
            url = environ.get(channel.url_env, "") if channel.url_env else channel.url
            if not url:
                raise DeliveryError(f"the environment variable {channel.url_env} is not set", lasting=True)
            _notify(url, message)
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


def _append(path: Path, message: Notification) -> None:
    """Append one line of JSON in ASCII, or nothing: no text can end it or begin another.

    The file is created if it does not exist, and so is its folder; both are for their owner alone.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_WAITING_NO_LINKS
    data = (json.dumps(_fields(message)) + "\n").encode("ascii")
    try:
        if not os.path.lexists(path.parent):
            # None above it: the folders of a disk that is not mounted would be taken for it.
            with suppress(FileExistsError):
                os.mkdir(path.parent, 0o700)
        descriptor = os.open(path, flags, 0o600)
        try:
            _write_whole(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError as error:
        missing = error.errno == errno.ENOENT
        raise DeliveryError(_unwritable(error), lasting=missing, final=error.errno in _NEVER) from None


def _write_whole(descriptor: int, data: bytes) -> None:
    """Write the data in one piece; take back a part that a full disk cut off. Raises: OSError."""
    written = os.write(descriptor, data)
    if written != len(data):
        with suppress(OSError):  # no regular file
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
        raise OSError(errno.ENOSPC, "")


def _unwritable(error: OSError) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "the file cannot be written: the disk is full"
        case errno.ENOENT:
            return "the file cannot be written: its folder does not exist; create it"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "the file cannot be written: no permission"
        case errno.ELOOP:
            return "the file cannot be written: it is a link; name the file itself"
        case number if number in _NEVER:
            return "the file cannot be written: this path cannot be a file"
        case _:
            return "the file cannot be written"


def _notify(url: str, message: Notification) -> None:
    """Deliver a message by apprise, in as many parts as its services need."""
    try:
        import apprise
    except ModuleNotFoundError:
        raise DeliveryError("apprise is not installed; it comes with tidegate[agent]", lasting=True) from None
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # P12: it would log URLs and texts
    title = f"{message.agent}: {message.subject}" if message.subject else message.agent
    of = sha256(f"{url}\0{message.text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    try:
        services = _services(url)
        sendings = [Sending(*each) for each in zip(services, _sent(message.progress, of), strict=False)]
        # Plain text: no escapes, no templates, no markup, whatever it contains.
        done = services.notify(message.text, title, body_format=apprise.NotifyFormat.TEXT)
    except DeliveryError:
        raise
    except Exception as error:  # noqa: BLE001  any of a hundred services
        _log.info("apprise failed: %s", type(error).__name__)
        raise DeliveryError(_NOT_ACCEPTED) from None
    if not done:
        raise failure(sendings, of)


def _services(url: str) -> apprise.Apprise:
    """Return the services of a URL. They split what is too long, unless the URL says otherwise."""
    import apprise
    from apprise.utils.parse import parse_urls

    asset = apprise.AppriseAsset(
        async_mode=False,  # one service after the other
        interpret_escapes=False,
        interpret_emojis=False,
        storage_mode="memory",
    )
    services = apprise.Apprise(asset=asset)
    for each in parse_urls(url) or [url]:  # type: ignore[no-untyped-call]  # apprise has no types
        service = apprise.Apprise.instantiate(each, asset=asset)
        if service is None:
            raise DeliveryError("apprise does not know this kind of URL", final=True)
        if not re.search("[?&]overflow=", each, re.IGNORECASE):
            service.overflow_mode = apprise.OverflowMode.SPLIT
        services.add(service)
    return services


def _sent(progress: str, of: str) -> Iterator[int]:
    """Yield how many parts each service got already. of: what message to what URL; other progress does not count."""
    known, *sent = progress.split() or [""]
    yield from map(int, sent if known == of else ())
    yield from repeat(0)


class _Answer(NamedTuple):
    """What a service answered. final: whether it will always answer so."""

    status: int
    final: bool


class Sending:
    """A message on its way to one service, part by part: in order, each once, and none after one that failed.

    sent: how many parts have been delivered. failed: whether the last one was not. answers: those that were no success,
    as far as they are known.
    """

    def __init__(self, service: Any, sent: int = 0) -> None:
        self.sent = sent
        self.answers: list[_Answer] = []
        self.failed = False
        self._send = service.send
        service.send = self._send_part
        service.logger = _AnswerLog(self.answers)

    @property
    def final(self) -> bool:
        """Return whether no later attempt can succeed."""
        return bool(self.answers) and all(answer.final for answer in self.answers)

    def _send_part(self, *, index: int, **part: Any) -> bool:
        if index == self.sent and self._send(index=index, **part):
            self.sent += 1
        self.failed = index >= self.sent
        return not self.failed


class _AnswerLog(logging.Logger):
    """The log of one service, which goes nowhere (P12). It keeps only the statuses, which apprise says nowhere else."""

    def __init__(self, answers: list[_Answer]) -> None:
        super().__init__("apprise")
        self._answers = answers

    def handle(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING and (found := _HTTP.search(text)):
            status = int(found[1])
            self._answers.append(_Answer(status, 400 <= status < 500 and status not in _PASSING))
        elif record.levelno == logging.DEBUG and (found := _SMTP.match(text)):
            self._answers.append(_Answer(int(found[1]), found[1] >= "500"))


def failure(sendings: Sequence[Sending], of: str) -> DeliveryError:
    """Return the error for a message that not all services accepted. of: as in its progress."""
    sent, failed = [each.sent for each in sendings], [each for each in sendings if each.failed]
    progress = " ".join((of, *map(str, sent))) if any(sent) else ""
    after = f", after {sum(sent)} {'part' if sum(sent) == 1 else 'parts'} of it" if any(sent) else ""
    if not failed or not all(each.final for each in failed):
        return DeliveryError(_NOT_ACCEPTED + after, progress=progress)
    status = failed[0].answers[-1].status
    reason = f"the service refused the message{after} (status {status}{_MEANINGS.get(status, '')})"
    return DeliveryError(reason, final=True, progress=progress)
