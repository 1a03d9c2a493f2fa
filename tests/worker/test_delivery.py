"""Results go where they may, are kept where they may not, and are tried again where they could not. PRE_OUTPUT, P14."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.worker.scene import INTERNAL, NOON, PUBLIC, RESTRICTED, Scene, says

from tidegate.config.channels import ChannelSettings
from tidegate.policy.levels import Level
from tidegate.worker.delivery import DeliveryError, Notification, back_off, send

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


def test_a_file_in_a_folder_that_is_not_there_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match="cannot be written"):
        send(ChannelSettings("diary", "file", RESTRICTED, tmp_path / "no" / "file"), message())


def test_the_log_gets_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        send(ChannelSettings("console", "log", PUBLIC), message(NASTY))
    (record,) = caplog.records
    assert record.name == "tidegate.channel"
    assert "\n" not in record.getMessage()
    assert json.loads(record.getMessage())["text"] == NASTY


# Some of its hundred services import what warns; none of them is ours.
of_apprise = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Service(BaseHTTPRequestHandler):
    """What apprise posts to."""

    bodies: list[dict[str, str]]
    status: int

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def service() -> Iterator[ThreadingHTTPServer]:
    Service.bodies, Service.status = [], 200
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@of_apprise
def test_apprise_takes_the_text_as_it_is(service: ThreadingHTTPServer) -> None:
    environ = {"URL": f"json://127.0.0.1:{service.server_port}/hook"}
    send(
        ChannelSettings("phone", "apprise", PUBLIC, url_env="URL"),
        message("a\\nb {{config}} :smile: <b>%s</b>", "$(id)"),
        environ,
    )
    (body,) = Service.bodies
    assert (body["title"], body["message"]) == ("assistant: $(id)", "a\\nb {{config}} :smile: <b>%s</b>")


@of_apprise
def test_what_the_service_does_not_take_says_so_and_no_more(
    service: ThreadingHTTPServer, caplog: pytest.LogCaptureFixture
) -> None:
    Service.status = 500
    with pytest.raises(DeliveryError, match=r"^the service did not accept the message$"):
        send(
            ChannelSettings("phone", "apprise", PUBLIC, url=f"json://user:hush@127.0.0.1:{service.server_port}"),
            message(),
        )
    assert "hush" not in caplog.text
    assert "hello" not in caplog.text


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        (ChannelSettings("phone", "apprise", PUBLIC, url="nonsense"), "does not know this kind of URL"),
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
