"""Results go where they may, are kept where they may not, and are tried again where they could not. PRE_OUTPUT, P14."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.worker.scene import INTERNAL, NOON, PUBLIC, RESTRICTED, Scene, says

from tidegate.config.channels import ChannelSettings
from tidegate.policy.levels import Level
from tidegate.worker.delivery import DeliveryError, Notification, Sending, back_off, failure, send
from tidegate.worker.worker_context import Failures

NASTY = "line\nnext\u2028last \x1b[31m $(touch /tmp/p) `id` {{config}} %s%n ../../x \U0001f600 <b>\\n"


def run_once(scene: Scene, level: Level = PUBLIC, channel: str | None = None) -> None:
    scene.add(level=level, channel=channel)
    scene.clock.pass_(hours=1)
    assert scene.tick(level) == 1


def test_a_result_goes_to_the_channel_of_the_configuration(scene: Scene) -> None:
    scene.model = says("the digest")
    run_once(scene)
    ((channel, message),) = scene.post.sent
    assert channel == "open"
    assert message == Notification("assistant", "job", "the digest", PUBLIC, NOON + timedelta(hours=1))
    assert (scene.runs()[0].delivery, scene.runs()[0].attempts) == ("delivered", 1)


def test_a_job_can_have_a_channel_of_its_own(scene: Scene) -> None:
    run_once(scene, channel="street")
    assert [channel for channel, _ in scene.post.sent] == ["street"]


def test_without_any_channel_a_result_is_kept_and_goes_nowhere(scene: Scene) -> None:
    scene.set_run(channel=None)
    run_once(scene)
    assert (scene.runs()[0].text, scene.runs()[0].delivery) == ("done", "none")
    assert scene.post.sent == []


@pytest.mark.parametrize("level", Level, ids=str)
@pytest.mark.parametrize("clearance", [*Level, None], ids=str)
def test_p14_a_result_goes_out_exactly_where_its_level_may_be_shown(
    scene: Scene, level: Level, clearance: Level | None
) -> None:
    scene.settings.channels["open"] = ChannelSettings("open", "log", clearance)  # type: ignore[index]
    run_once(scene, level)
    may = clearance is not None and level <= clearance
    assert len(scene.post.sent) == may
    run = scene.runs()[0]
    assert run.text == "done"
    assert run.delivery == ("delivered" if may else "pending")
    assert run.delivery_reason.startswith("" if may else "held back: ")


@pytest.fixture(autouse=True)
def _own_channels(scene: Scene) -> None:
    object.__setattr__(scene.settings, "channels", dict(scene.settings.channels))


def test_a_channel_that_nobody_configured_is_said_so(scene: Scene) -> None:
    run_once(scene, channel="gone")
    assert (
        scene.runs()[0].delivery_reason
        == "config.toml has no channel of this name; add it, or give the job another channel"
    )


def test_what_could_not_be_delivered_is_kept_and_tried_again_with_back_off(scene: Scene) -> None:
    scene.post.fails = 3
    run_once(scene)
    tried = list[int]()
    worker = scene.worker()
    for minute in range(1, 12):
        scene.clock.pass_(minutes=1)
        before = scene.runs()[0].attempts
        worker.tick()
        tried += [minute] * (scene.runs()[0].attempts - before)
    assert tried == [1, 3, 7]
    assert scene.post.texts == ["done"]
    assert scene.runs()[0].delivery == "delivered"


def test_after_a_day_of_attempts_it_is_given_up_and_still_kept(scene: Scene) -> None:
    scene.post.fails = 1000
    run_once(scene)
    worker = scene.worker()
    for _ in range(40):
        scene.clock.pass_(hours=6)
        worker.tick()
    run = scene.runs()[0]
    assert (run.delivery, run.attempts, run.text) == ("given up", 12, "done")
    assert run.delivery_reason == "the service did not accept the message"


def test_tried_again_after_a_restart_and_with_a_clock_that_was_set_back(scene: Scene) -> None:
    scene.post.fails = 1
    run_once(scene)
    scene.clock.now -= timedelta(days=400)
    scene.worker().tick()
    assert scene.post.texts == ["done"]


@pytest.mark.parametrize("kind", ["file", "webhook"])
def test_what_can_never_be_delivered_is_given_up_at_once_and_told(scene: Scene, kind: str) -> None:
    scene.post.error = DeliveryError(f"the {kind} refused it", final=True)
    scene.post.fails = 1
    told = list[str]()
    scene.add()
    scene.clock.pass_(hours=1)
    failures = Failures(told.append)
    assert scene.tick(failures=failures) == 1
    run = scene.runs()[0]
    assert (run.delivery, run.attempts, run.text) == ("given up", 1, "done")
    assert run.delivery_reason == f"the {kind} refused it"
    assert told == [
        f"assistant at PUBLIC: run 1: its result was not delivered (given up): the {kind} refused it: job job"
    ]
    assert failures.count == 1
    for _ in range(3):
        scene.clock.pass_(hours=12)
        scene.worker()._deliver()
    assert scene.runs()[0].attempts == 1


def test_what_was_delivered_of_a_result_is_not_sent_again_even_after_a_restart(scene: Scene) -> None:
    scene.post.error = DeliveryError("not accepted, after 1 part of it", progress="of 1")
    scene.post.fails = 1
    run_once(scene)
    assert scene.runs()[0].delivery_progress == "of 1"
    scene.post.error, scene.post.fails = DeliveryError("nobody there"), 1
    for _ in range(2):
        scene.clock.pass_(minutes=5)
        scene.tick()
    assert [message.progress for _, message in scene.post.sent] == ["of 1"]
    assert (scene.runs()[0].delivery, scene.runs()[0].delivery_progress) == ("delivered", "")


def test_two_processes_do_not_both_deliver(scene: Scene) -> None:
    scene.post.fails = 1
    run_once(scene)
    scene.clock.pass_(minutes=2)
    one, other = scene.worker(), scene.worker()
    (undelivered,) = one._host.runs.undelivered()
    for worker in (one, other):
        worker._attempt(undelivered, scene.clock())
    assert scene.post.texts == ["done"]


def test_what_is_pending_outlasts_the_tidying_of_old_runs(scene: Scene) -> None:
    scene.add(schedule="* * * * *", channel="gone")
    for _ in range(60):
        scene.clock.pass_(minutes=1)
        scene.tick()
    assert len(scene.runs()) == 61


# The ways out


def message(text: str = "hello", subject: str = "job", level: Level = INTERNAL) -> Notification:
    return Notification("assistant", subject, text, level, NOON)


def test_a_file_gets_a_line_of_json_and_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    channel = ChannelSettings("diary", "file", RESTRICTED, tmp_path / "diary.jsonl")
    send(channel, message())
    send(channel, message(NASTY, subject=NASTY))
    first, second = (tmp_path / "diary.jsonl").read_text(encoding="ascii").splitlines()
    assert json.loads(first) == {
        "at": "2026-03-02T12:00:00.000000Z",
        "agent": "assistant",
        "job": "job",
        "level": "INTERNAL",
        "text": "hello",
    }
    assert json.loads(second)["text"] == json.loads(second)["job"] == NASTY
    assert stat.S_IMODE(os.stat(tmp_path / "diary.jsonl").st_mode) == 0o600


def test_a_file_that_is_a_link_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(DeliveryError, match="cannot be written"):
        send(ChannelSettings("diary", "file", RESTRICTED, tmp_path / "link"), message())
    assert not (tmp_path / "target").exists()


def test_the_folder_of_a_file_is_created_for_its_owner_alone(tmp_path: Path) -> None:
    channel = ChannelSettings("diary", "file", RESTRICTED, tmp_path / "new" / "diary.jsonl")
    send(channel, message("first"))
    send(channel, message("second"))
    assert stat.S_IMODE(os.stat(tmp_path / "new").st_mode) == 0o700
    assert len((tmp_path / "new" / "diary.jsonl").read_text(encoding="ascii").splitlines()) == 2


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    send(ChannelSettings("diary", "file", RESTRICTED, tmp_path / "shared" / "diary.jsonl"), message())
    assert stat.S_IMODE(os.stat(tmp_path / "shared").st_mode) == 0o755


def test_only_one_folder_is_created_so_that_a_disk_that_is_not_mounted_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match="its folder does not exist") as failed:
        send(ChannelSettings("diary", "file", RESTRICTED, tmp_path / "no" / "such" / "file"), message())
    assert (failed.value.lasting, failed.value.final) == (True, False)
    assert not (tmp_path / "no").exists()


def test_a_folder_that_another_process_creates_at_the_same_moment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def created_before(path: Path, mode: int) -> None:
        _mkdir(path, mode)
        raise FileExistsError

    _mkdir = os.mkdir
    monkeypatch.setattr(os, "mkdir", created_before)
    send(ChannelSettings("diary", "file", RESTRICTED, tmp_path / "new" / "diary.jsonl"), message())
    assert (tmp_path / "new" / "diary.jsonl").exists()


@pytest.mark.parametrize("folder", ["", "no/such"])
def test_a_result_that_waits_for_the_owner_counts_as_a_failure(scene: Scene, tmp_path: Path, folder: str) -> None:
    clearance = None if not folder else RESTRICTED
    channel = ChannelSettings("open", "file", clearance, tmp_path / folder / "diary.jsonl")
    scene.settings.channels["open"] = channel  # type: ignore[index]
    scene.post = send  # type: ignore[assignment]
    scene.add()
    scene.clock.pass_(hours=1)
    failures = Failures()
    assert scene.tick(failures=failures) == 1
    assert (scene.runs()[0].delivery, failures.count) == ("pending", 1)


def test_the_log_gets_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        send(ChannelSettings("console", "log", PUBLIC), message(NASTY))
    (record,) = caplog.records
    assert record.name == "tidegate.channel"
    assert "\n" not in record.getMessage()
    assert json.loads(record.getMessage())["text"] == NASTY


class Full:
    """A disk that takes only so many bytes."""

    def __init__(self, left: int) -> None:
        self.left = left

    def write(self, descriptor: int, data: bytes) -> int:
        taken, self.left = data[: self.left], max(self.left - len(data), 0)
        return _write(descriptor, taken)


_write = os.write


def test_a_line_that_a_full_disk_cuts_off_is_taken_back_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = ChannelSettings("diary", "file", RESTRICTED, tmp_path / "diary.jsonl")
    send(channel, message("first"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", Full(50).write)
        with pytest.raises(DeliveryError, match="the disk is full") as failed:
            send(channel, message("second"))
    assert not failed.value.final
    send(channel, message("third"))
    lines = (tmp_path / "diary.jsonl").read_text(encoding="ascii").splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["first", "third"]


def test_a_pipe_that_takes_no_whole_line_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    channel = ChannelSettings("diary", "file", RESTRICTED, tmp_path / "pipe")
    with pytest.raises(DeliveryError, match="cannot be written"):
        send(channel, message())
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(os, "write", Full(50).write)
    with pytest.raises(DeliveryError, match="the disk is full"):
        send(channel, message())
    os.close(reading)


@pytest.mark.parametrize(
    ("number", "reason", "final"),
    [
        (errno.ENOSPC, "the disk is full", False),
        (errno.EDQUOT, "the disk is full", False),
        (errno.EMFILE, "cannot be written", False),
        (errno.EIO, "cannot be written", False),
        (errno.EACCES, "no permission", True),
        (errno.EROFS, "no permission", True),
        (errno.EISDIR, "this path cannot be a file", True),
        (errno.ENAMETOOLONG, "this path cannot be a file", True),
        (errno.ELOOP, "it is a link", True),
    ],
)
def test_a_file_that_can_never_be_written_is_told_from_one_that_cannot_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str, final: bool
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, "secret")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(DeliveryError, match=reason) as failed:
        send(ChannelSettings("diary", "file", RESTRICTED, tmp_path / "diary"), message())
    assert failed.value.final is failed.value.lasting is final
    assert "secret" not in str(failed.value)


# Some of its hundred services import what warns; none of them is ours.
of_apprise = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Service(BaseHTTPRequestHandler):
    """What apprise posts to. statuses: of the next answers; then 200. chars_max: a longer text is refused."""

    bodies: list[dict[str, str]]
    statuses: list[int]
    chars_max: int

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append(body)
        too_long = len(body["message"]) > self.chars_max
        self.send_response(self.statuses.pop(0) if self.statuses else 400 if too_long else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a service that takes 1,000 characters at once."""
    from apprise.plugins.custom_json import NotifyJSON

    monkeypatch.setattr(NotifyJSON, "body_maxlen", 1_000)
    monkeypatch.setattr(NotifyJSON, "request_rate_per_sec", 0)
    Service.bodies, Service.statuses, Service.chars_max = [], [], 1_000
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"json://user:hush@127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    server.server_close()
    thread.join()


def phone(url: str) -> ChannelSettings:
    return ChannelSettings("phone", "apprise", RESTRICTED, url=url)


def refusal(url: str, text: str = "hello", progress: str = "") -> DeliveryError:
    with pytest.raises(DeliveryError) as failed:
        send(phone(url), replace(message(text), progress=progress))
    return failed.value


@of_apprise
def test_apprise_takes_the_text_as_it_is(url: str) -> None:
    send(
        ChannelSettings("phone", "apprise", PUBLIC, url_env="URL"),
        message("a\\nb {{config}} :smile: <b>%s</b>", "$(id)"),
        {"URL": url},
    )
    (body,) = Service.bodies
    assert (body["title"], body["message"]) == ("assistant: $(id)", "a\\nb {{config}} :smile: <b>%s</b>")


@of_apprise
@pytest.mark.parametrize("status", [301, 408, 425, 429, 500, 503])
def test_what_the_service_does_not_accept_now_says_so_and_no_more(
    url: str, status: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    Service.statuses = [status]
    error = refusal(url)
    assert (str(error), error.final, error.lasting) == ("the service did not accept the message", False, False)
    for told in (caplog.text, *capfd.readouterr()):
        assert "hush" not in told
        assert "hello" not in told


@of_apprise
@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (400, "it is malformed or too long"),
        (401, "check the key"),
        (403, "check the key"),
        (404, "check the URL"),
        (410, "check the URL"),
        (413, "it is too long"),
        (422, ""),
    ],
)
def test_what_the_service_will_never_accept_is_final_and_says_why(url: str, status: int, meaning: str) -> None:
    Service.statuses = [status]
    error = refusal(url)
    assert error.final
    assert str(error).startswith(f"the service refused the message (status {status}")
    assert meaning in str(error)


@of_apprise
def test_nobody_at_the_other_end_may_pass(url: str) -> None:
    assert not refusal("json://127.0.0.1:9/").final


@of_apprise
def test_a_long_result_is_split_as_the_service_allows_in_order(url: str) -> None:
    words = " ".join(f"word{number}" for number in range(400))
    send(phone(url), message(words))
    bodies = [body["message"] for body in Service.bodies]
    assert len(bodies) == 4
    assert " ".join(bodies).split() == words.split()


@of_apprise
@pytest.mark.parametrize("mode", ["overflow=upstream", "x=1&Overflow=UPSTREAM"])
def test_the_url_may_choose_otherwise(url: str, mode: str) -> None:
    assert refusal(f"{url}?{mode}", "a" * 2_500).final
    assert [len(body["message"]) for body in Service.bodies] == [2_500]
    Service.bodies.clear()
    send(phone(f"{url}?overflow=truncate"), message("a" * 2_500))
    assert [len(body["message"]) for body in Service.bodies] == [1_000]


@of_apprise
@pytest.mark.parametrize(("status", "retry"), [(503, ""), (503, "?retry=1"), (None, "")])
def test_after_a_failure_in_the_middle_the_rest_follows_in_order(url: str, status: int | None, retry: str) -> None:
    text = "a" * 1_000 + "b" * 1_000 + "c" * 500
    Service.statuses = [200, *[status] * 2] if status else [200, 429]
    error = refusal(url + retry, text)
    assert str(error) == "the service did not accept the message, after 1 part of it"
    Service.bodies.clear()
    Service.statuses = []
    send(phone(url + retry), replace(message(text), progress=error.progress))
    assert [body["message"][0] for body in Service.bodies] == ["b", "c"]


@of_apprise
def test_the_progress_of_another_message_or_service_does_not_count(url: str) -> None:
    text = "a" * 2_500
    Service.statuses = [200, 200, 400]
    error = refusal(url, text)
    assert (error.final, "after 2 parts of it" in str(error)) == (True, True)
    for other, changed in ((f"{url}2", text), (url, f"{text}!")):
        Service.bodies.clear()
        send(phone(other), replace(message(changed), progress=error.progress))
        assert len(Service.bodies) == 3


@of_apprise
def test_each_service_of_a_url_has_its_own_progress(url: str) -> None:
    both = f"{url}?a=1, {url}?b=1"
    Service.statuses = [200, 200, 200, 401]  # both parts to the first, one part to the second
    error = refusal(both, "a" * 1_500)
    Service.bodies.clear()
    send(phone(both), replace(message("a" * 1_500), progress=error.progress))
    assert [body["title"] for body in Service.bodies] == ["assistant: job [2/2]"]


@of_apprise
def test_a_service_that_fails_as_nobody_foresaw_is_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import apprise

    monkeypatch.setattr(apprise.Apprise, "notify", lambda *_, **__: 1 / 0)
    error = refusal(url)
    assert (str(error), error.lasting) == ("the service did not accept the message", False)


AUTH = "Socket Exception: (535, b'5.7.8 Username and Password not accepted')"
UNKNOWN = "Socket Exception: {'a@example.org': (550, b'no such user')}"


class Logging:
    """A service that logs this when it is sent something, and fails."""

    logger: logging.Logger

    def __init__(self, *logs: tuple[int, str]) -> None:
        self.logs = logs

    def send(self, **_: object) -> bool:
        for level, text in self.logs:
            self.logger.log(level, "%s", text)
        return False


@pytest.mark.parametrize(
    ("services", "final"),
    [
        ([Logging((logging.DEBUG, AUTH))], True),
        ([Logging((logging.DEBUG, UNKNOWN))], True),
        ([Logging((logging.DEBUG, "Socket Exception: (421, b'try later')"))], False),
        ([Logging((logging.DEBUG, "Response Details: (535, b'error=400."))], False),
        ([Logging((logging.WARNING, "Bad Request, error=400.")), Logging((logging.WARNING, "no connection"))], False),
        ([Logging((logging.WARNING, "error=500."), (logging.WARNING, "error=400."))], False),
        ([Logging((logging.WARNING, "error=400.")), Logging((logging.ERROR, "error=404"))], True),
        ([], False),
    ],
)
def test_what_services_log_decides_whether_to_try_again(
    services: list[Logging], final: bool, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    sendings = [Sending(each) for each in services]
    assert not any(each.send(index=0) for each in services)
    assert failure(sendings, "of").final is final
    assert (capfd.readouterr(), caplog.text) == (("", ""), "")


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        (ChannelSettings("phone", "apprise", PUBLIC, url="nonsense"), "does not know this kind of URL"),
        (ChannelSettings("phone", "apprise", PUBLIC, url=" , "), "does not know this kind of URL"),
        (ChannelSettings("phone", "apprise", PUBLIC, url_env="NOT_SET"), "variable [A-Z_]+ is not set"),
        (ChannelSettings("phone", "telepathy", PUBLIC), "kind is unknown"),
    ],
)
def test_a_channel_that_cannot_work_says_why(channel: ChannelSettings, reason: str) -> None:
    with pytest.raises(DeliveryError, match=reason):
        send(channel, message(), {})


def test_back_off_doubles_up_to_six_hours() -> None:
    minutes = [back_off(attempts).total_seconds() / 60 for attempts in range(1, 12)]
    assert minutes == [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360]
