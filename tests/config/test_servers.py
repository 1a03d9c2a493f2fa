"""`[servers.NAME]`: read whole, refused by file and key, and never a server that launders or reaches the home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.config.reader import read_settings
from tidegate.config.servers import Server
from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level
from tidegate.policy.servers import Classification

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level

FULL = """
[servers.files]
command = ["npx", "-y", "some-server", "/srv/plans"]
cwd = "/srv"
env = {LOG = "no"}
source = "CONFIDENTIAL"
sink = "CONFIDENTIAL"
timeout_seconds = 5

[servers.files.tools.list_roots]
sink = "PUBLIC"

[servers.web]
url = "https://example.org/mcp"
headers = {Authorization = "Bearer x"}

[servers.web.tools.search]
source = "PUBLIC"
sink = "PUBLIC"

[servers.web.tools.fetch]
sink = "PUBLIC"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def servers(home: Path, text: str) -> dict[str, Server]:
    (home / "config.toml").write_text(text)
    return dict(read_settings(home, {}).servers)


def refused(home: Path, text: str) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        servers(home, text)
    return caught.value


def test_without_servers_there_are_none(home: Path) -> None:
    assert servers(home, "[limits]\n") == {}


def test_every_setting_of_a_server_is_read(home: Path) -> None:
    files, web = servers(home, FULL).values()
    assert files == Server(
        name="files",
        command=("npx", "-y", "some-server", "/srv/plans"),
        cwd="/srv",
        env={"LOG": "no"},
        classification=Classification(CONFIDENTIAL, CONFIDENTIAL),
        tools={"list_roots": Classification(CONFIDENTIAL, PUBLIC)},
        timeout_seconds=5,
    )
    assert (web.url, web.headers, web.classification) == (
        "https://example.org/mcp",
        {"Authorization": "Bearer x"},
        None,
    )


def test_p14_what_is_not_classified_in_full_is_not_classified(home: Path) -> None:
    files, web = servers(home, FULL).values()
    assert files.classify("anything") == Classification(CONFIDENTIAL, CONFIDENTIAL)
    assert files.classify("list_roots") == Classification(CONFIDENTIAL, PUBLIC)
    assert web.classify("search") == Classification(PUBLIC, PUBLIC)
    assert web.classify("fetch") is None
    assert web.classify("anything") is None


def test_secrets_are_not_shown_by_a_server_s_representation(home: Path) -> None:
    assert "Bearer" not in repr(servers(home, FULL))


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("servers = 5\n", "servers: must be sections"),
        ("[servers]\nx = 1\n", "servers.x: must be a section, [servers.x]"),
        ("[servers.Files]\ncommand = ['x']\n", "servers.Files: a server's name"),
        ("[servers.a_b]\ncommand = ['x']\n", "servers.a_b: a server's name"),
        ("[servers.x]\nsource = 'PUBLIC'\n", "servers.x: needs a command or a url"),
        ("[servers.x]\ncommand = ['x']\nurl = 'https://x'\n", "servers.x: needs a command or a url, and not both"),
        ("[servers.x]\ncommand = 'x y'\n", "servers.x.command: must be a list of strings"),
        ("[servers.x]\ncommand = []\n", "servers.x.command: must be a list"),
        ("[servers.x]\ncommand = ['']\n", "servers.x.command: must be a list"),
        ("[servers.x]\ncommand = ['x', 1]\n", "servers.x.command: must be a list"),
        ('[servers.x]\ncommand = ["x", "\\u0000"]\n', "servers.x.command: must be a list"),
        ("[servers.x]\nurl = 'file:///etc'\n", "servers.x.url: must be an http or https URL"),
        ("[servers.x]\nurl = 'https://u:p@x/'\n", "servers.x.url: must be"),
        ("[servers.x]\nurl = 'https://[x'\n", "servers.x.url: must be"),
        ("[servers.x]\nurl = 1\n", "servers.x.url: must be"),
        ("[servers.x]\nurl = 'https://x'\ncwd = '/srv'\n", "servers.x.cwd: cannot be combined with url"),
        ("[servers.x]\nurl = 'https://x'\nenv = {}\n", "servers.x.env: cannot be combined with url"),
        ("[servers.x]\ncommand = ['x']\nheaders = {}\n", "servers.x.headers: cannot be combined with command"),
        ("[servers.x]\ncommand = ['x']\nenv = {A = 1}\n", "servers.x.env: must be a table of strings"),
        ("[servers.x]\ncommand = ['x']\nenv = {'A=B' = 'c'}\n", "servers.x.env: must be a table"),
        ("[servers.x]\nurl = 'https://x'\nheaders = {'A B' = 'c'}\n", "servers.x.headers: must be a table"),
        ('[servers.x]\nurl = "https://x"\nheaders = {A = "c\\r\\nB: d"}\n', "servers.x.headers: must be a table"),
        ("[servers.x]\ncommand = ['x']\ncwd = ''\n", "servers.x.cwd: must be the path"),
        ("[servers.x]\ncommand = ['x']\n\nsource = 'SECRET'\n", "servers.x.source: must be one of PUBLIC"),
        ("[servers.x]\ncommand = ['x']\nsink = 'public'\n", "servers.x.sink: must be one of"),
        ("[servers.x]\ncommand = ['x']\nsink = 0\n", "servers.x.sink: must be one of"),
        ("[servers.x]\ncommand = ['x']\nlevel = 'PUBLIC'\n", "servers.x.level: unknown key; known here: command"),
        ("[servers.x]\ncommand = ['x']\ntimeout_seconds = 0\n", "servers.x.timeout_seconds: must be a whole"),
        ("[servers.x]\ncommand = ['x']\ntimeout_seconds = true\n", "servers.x.timeout_seconds: must be"),
        ("[servers.x]\ncommand = ['x']\ntools = []\n", "servers.x.tools: must be a section for each"),
        ("[servers.x]\ncommand = ['x']\ntools.a = 1\n", "servers.x.tools.a: must be a section"),
        ("[servers.x]\ncommand = ['x']\ntools.a.level = 1\n", "servers.x.tools.a.level: unknown key"),
        ("[servers.x]\ncommand = ['x']\n[servers.x.tools.a]\nsink = 'X'\n", "servers.x.tools.a.sink: must be one"),
        ("[servers.x]\ncommand = ['x']\nunsafe_launders = 1\n", "servers.x.unsafe_launders: must be true or"),
        ("[limit]\n", "limit: unknown section; the sections are defaults, limits"),
        ("".join(f"[servers.s{n}]\ncommand = ['x']\n" for n in range(33)), "servers: has more than 32"),
    ],
)
def test_a_mistake_is_named_with_file_and_key(home: Path, text: str, about: str) -> None:
    error = refused(home, text)
    assert error.message.startswith(f"config.toml: {about}")
    assert error.details == {"argument": "config.toml"}


LAUNDERS = """
[servers.x]
command = ["x"]
tools.read = {source = "PUBLIC", sink = "PUBLIC"}
tools.write = {source = "CONFIDENTIAL", sink = "CONFIDENTIAL"}
"""


def test_p14_a_server_that_launders_is_refused(home: Path) -> None:
    error = refused(home, LAUNDERS)
    assert error.message.startswith("config.toml: servers.x: would let data flow down")
    assert "the sink of 'write', CONFIDENTIAL, is above the source of 'read', PUBLIC, so" in error.message
    assert "unsafe_launders = true" in error.message
    error = refused(home, "[servers.x]\ncommand = ['x']\nsource = 'PUBLIC'\nsink = 'INTERNAL'\n")
    assert "the sink of the server, INTERNAL, is above the source of the server, PUBLIC" in error.message


@pytest.mark.parametrize(
    ("source", "sink"), [(source, sink) for source in Level for sink in Level], ids=lambda level: str(level)
)
def test_p14_one_tool_alone_launders_when_its_sink_is_above_its_source(home: Path, source: Level, sink: Level) -> None:
    text = f"[servers.x]\ncommand = ['x']\nsource = '{source}'\nsink = '{sink}'\n"
    if sink.can_flow_to(source):
        assert servers(home, text)["x"].classification == Classification(source, sink)
    else:
        assert "would let data flow down" in refused(home, text).message


def test_p14_a_tool_that_is_not_callable_launders_nothing(home: Path) -> None:
    text = "[servers.x]\ncommand = ['x']\ntools.a = {source = 'PUBLIC', sink = 'PUBLIC'}\n"
    assert servers(home, f"{text}tools.b = {{sink = 'RESTRICTED'}}\n")["x"].classify("b") is None


def test_p14_laundering_can_be_accepted_by_name(home: Path) -> None:
    found = servers(home, f"{LAUNDERS}unsafe_launders = true\n")["x"]
    assert found.classify("write") == Classification(CONFIDENTIAL, CONFIDENTIAL)


def reach(home: Path, settings: str) -> str:
    return refused(home, f"[servers.x]\n{settings}\n").message


@pytest.mark.parametrize(
    "word",
    [
        "{home}",
        "{home}/agents",
        "{home}/agents/a/restricted.db",
        "{above}",
        "/",
        "{above}/elsewhere/../home",
        "--root={home}",
        "--root={above}",
        "file://{home}",
        "file://{above}",
        "cat '{home}/control.db'",
        "{above}:/elsewhere",
        "/elsewhere,{home}",
        "-v{home}",
        "-v{home}:/x",
        "-v{above}:/x:ro",
        "-v={home}:/x",
        "-itv{home}:/x",
        "-C{above}",
        "-v$HOME:/x",
        "-v${{HOME}}/home:/x",
        "-v~:/x",
        "-v~/home:/x",
        "-v../../../../../../../../../..:/x",
        "--volume={home}:/x",
        "--mount=type=bind,source={home},target=/x",
        "type=bind,source=~/home,target=/x",
        "docker run -v{home}:/x image",
        "$HOME",
        "~",
        "~/home",
        "../../../../../../../../../..",
    ],
)
def test_a_command_line_that_reaches_the_home_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setenv("HOME", str(home.parent))
    text = word.format(home=home, above=home.parent)
    assert "servers.x.command: reaches the home" in reach(home, f"command = ['server', {text!r}]".replace('"', "'''"))


def test_a_link_to_the_home_reaches_it(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    assert "command: reaches the home" in reach(home, f"command = ['server', '{tmp_path}/link/agents']")


def test_a_home_behind_a_link_is_reached_by_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    assert "command: reaches the home" in reach(tmp_path / "link", f"command = ['server', '{tmp_path}/real']")


def test_the_folder_it_runs_in_and_its_environment_count(home: Path) -> None:
    assert "servers.x.cwd: reaches the home" in reach(home, f"command = ['server']\ncwd = '{home}'")
    assert "servers.x.cwd: reaches the home" in reach(home, f"command = ['server']\ncwd = '{home.parent}'")
    assert "servers.x.env: reaches the home" in reach(home, f"command = ['server']\nenv = {{ROOT = '{home}'}}")
    assert "servers.x.command: reaches" in reach(home, f"command = ['server', '../home']\ncwd = '{home.parent}/else'")


@pytest.mark.parametrize(
    "command",
    [
        "['tidegate', 'mcp']",
        "['/usr/bin/tidegate', 'mcp']",
        "['uvx', 'tidegate', 'mcp']",
        "['python', '-m', 'tidegate']",
    ],
)
def test_tidegate_itself_reaches_its_home(home: Path, command: str) -> None:
    assert "command: reaches the home" in reach(home, f"command = {command}")


@pytest.mark.parametrize(
    "settings",
    [
        "command = ['server', '/srv/plans', 'tidegate', '--x=/srv']",
        "command = ['server', '{above}/elsewhere', '{home}-not', 'https://example.org/a/b']",
        "command = ['docker', 'run', '-it', '-v{above}/elsewhere:/x', '-v/srv:{above}/elsewhere', '--rm']",
        "command = ['npx', '-y', '@scope/server', 'plans']\ncwd = '{above}/elsewhere'",
        "command = ['tidegate', 'mcp', '--home', '/srv/other']",
        "command = ['tidegate', 'mcp']\nenv = {{TIDEGATE_HOME = '/srv/other'}}",
        "command = ['server']\nenv = {{MEMORY_FILE_PATH = '{above}/elsewhere/memory.json', EMPTY = ''}}",
    ],
)
def test_a_server_with_a_folder_of_its_own_does_not_reach_the_home(home: Path, settings: str) -> None:
    (home.parent / "elsewhere").mkdir()
    assert servers(home, "[servers.x]\n" + settings.format(home=home, above=home.parent))["x"].command


def test_a_home_that_does_not_exist_yet_is_reached_all_the_same(tmp_path: Path) -> None:
    from tidegate.config.exposure import exposes_home

    home = tmp_path / "not" / "yet"
    assert exposes_home(["server", str(tmp_path / "not")], None, {}, home) == "command"
    assert exposes_home(["server", str(tmp_path / "else")], None, {}, home) is None


def test_another_spelling_of_the_same_folder_reaches_the_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where letter case does not count: the path differs, the folder is the same."""
    from tidegate.config.exposure import exposes_home

    other = f"{home.parent}/HOME"
    real = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self: real(home if str(self) == other else self))
    assert exposes_home(["server", f"{other}/agents"], None, {}, home) == "command"
    assert exposes_home(["server", f"{other}S"], None, {}, home) is None


def test_a_path_that_cannot_be_looked_at_is_no_mistake_of_the_check(home: Path) -> None:
    from tidegate.config.exposure import exposes_home

    assert exposes_home(["server", "a" * 5000, "a\0b", os.fsdecode(b"\xff")], None, {}, home) is None
