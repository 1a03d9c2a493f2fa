"""What is shipped: a wheel and an sdist that hold everything, and that work where the source is not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from importlib.metadata import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = [ROOT / "requirements.lock", ROOT / "requirements-dev.lock"]
SECONDS_MAX = 120

Installed = Callable[..., subprocess.CompletedProcess[bytes]]


def done(*command: str | Path, **settings: object) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS_MAX, **settings)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, made from the checkout, and the wheel, made from the sdist alone."""
    folder = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    [sdist] = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as owner_compartment:
        owner_compartment.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11 has it since 3.11.4
        owner_compartment.extractall(folder)
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=unpacked)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Runs a program of a clean environment with the wheel in it, far from the source."""
    environment = tmp_path_factory.mktemp("installed")
    done(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    # The dependencies of this environment, without what it has of Tidegate: a `.pth` in them is not followed.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    [wheel] = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--isolated", "--disable-pip-version-check"]
    done(*pip, "install", "--no-index", "--no-deps", "--quiet", "--ignore-installed", str(wheel))

    def run(program: str, *words: str, home: Path) -> subprocess.CompletedProcess[bytes]:
        env = {"PATH": os.environ["PATH"], "TIDEGATE_HOME": str(home), "HOME": str(home.parent)}
        command = [str(environment / "bin" / program), *words]
        return subprocess.run(command, cwd="/", env=env, capture_output=True, timeout=SECONDS_MAX, check=False)

    return run


def sources() -> set[str]:
    """Every file of the package that is not made by running it."""
    package = ROOT / "src" / "tidegate"
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / "src").as_posix() for path in files}


def test_k01_the_wheel_holds_every_file_of_the_package_and_nothing_else(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if not name.startswith("tidegate-0.1.0.dist-info/")} == sources()
    assert "tidegate/py.typed" in names
    assert "tidegate-0.1.0.dist-info/licenses/LICENSE" in names


def test_the_sdist_holds_what_the_tests_and_the_makefile_need(built: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as owner_compartment:
        names = {name.partition("/")[2] for name in owner_compartment.getnames()}
    assert {"Makefile", "README.md", "LICENSE", "pyproject.toml", "tests/conftest.py", "requirements-dev.lock"} <= names
    assert not [name for name in names if re.search(r"\.venv|__pycache__|\.coverage|\.db$", name)]


def test_k01_it_works_away_from_its_source(installed: Installed, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert installed("tidegate", "save", "user-name", "Ada Lovelace", home=home).returncode == 0
    found = json.loads(installed("tidegate", "search", "what is the user's name?", "--json", home=home).stdout)
    assert [hit["content"] for hit in found["results"]] == ["Ada Lovelace"]


def test_the_installed_package_is_the_wheels(installed: Installed, tmp_path: Path) -> None:
    ran = installed("python", "-c", "import tidegate; print(tidegate.__file__)", home=tmp_path)
    assert not Path(ran.stdout.decode().strip()).is_relative_to(ROOT)


@pytest.mark.parametrize("form", [("tidegate",), ("python", "-m", "tidegate")], ids=["script", "module"])
@pytest.mark.parametrize("option", ["--version", "--help"])
def test_k02_the_script_and_the_module_run(
    installed: Installed, tmp_path: Path, form: tuple[str, ...], option: str
) -> None:
    ran = installed(*form, option, home=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.startswith((b"tidegate 0.1.0\n", b"Usage: tidegate "))


def pins(lock: Path) -> dict[str, str]:
    found = re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(found)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_line_of_a_lock_is_a_pin_or_a_hash(lock: Path) -> None:
    pin = r"[a-z0-9._-]+==[^ ]+( ; [^\\]+)? \\"
    digest = r"    --hash=sha256:[0-9a-f]{64}( \\)?"
    for line in lock.read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(f"{pin}|{digest}", line), line


def test_the_locks_agree() -> None:
    run, dev = map(pins, LOCKS)
    assert run.items() <= dev.items()


def test_what_the_package_needs_is_pinned() -> None:
    needs = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    needs += PROJECT["project"]["optional-dependencies"]["server"]
    names = {re.split(r"[<>=\[]", need)[0].lower() for need in needs}
    assert names <= pins(LOCKS[0]).keys()


def test_the_core_needs_five_packages() -> None:
    names = [re.split(r"[<>=]", need)[0] for need in PROJECT["project"]["dependencies"]]
    assert names == ["apsw", "click", "platformdirs", "PyStemmer", "PyYAML"]


def test_every_extra_of_another_package_is_one_that_it_has() -> None:
    found = list[str]()
    for requirement in (each for extra in PROJECT["project"]["optional-dependencies"].values() for each in extra):
        named = re.match(r"(?!tidegate\b)([\w-]+)\[([\w,-]+)\]", requirement)
        if named:
            found.append(named[1])
            assert set(named[2].split(",")) <= set(metadata(named[1]).get_all("Provides-Extra") or ()), requirement
    assert found == ["pydantic-ai-slim"]


def test_all_is_all_the_extras() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert extras["all"] == [f"tidegate[{','.join(name for name in extras if name != 'all')}]"]
