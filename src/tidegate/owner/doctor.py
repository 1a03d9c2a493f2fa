"""The doctor: everything that can be wrong with a home, in words, and the safe repairs."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from tidegate.audit.anchors import Anchor
from tidegate.audit.verify import verify
from tidegate.config.channels import ChannelSettings
from tidegate.config.kinds import CONFIG_NAME
from tidegate.config.reader import read_settings
from tidegate.core.guidance import INSTRUCTIONS_CHARS, read_instructions
from tidegate.core.maintenance import rebuild_index
from tidegate.core.variants import WHOLE, every
from tidegate.errors import StorageError, TidegateError
from tidegate.files import can_append
from tidegate.owner.doctor_sessions import AuditedSessions
from tidegate.policy.levels import Level
from tidegate.records.expiry import Expiry
from tidegate.records.finding import Finding, Remedy, error, warning
from tidegate.records.record import RecordKind
from tidegate.records.tags import fold_tag
from tidegate.search.analysis import analyse
from tidegate.search.ranking import FREQUENCY_MAX, Statistics
from tidegate.search.spelling import is_word
from tidegate.storage.base import OwnerCompartment
from tidegate.storage.sqlite.control_store import SqliteControlStore
from tidegate.storage.sqlite.database_checks import examine_compartment, examine_control, examine_rows, restore_tags
from tidegate.storage.sqlite.files import HomeFiles
from tidegate.storage.sqlite.home_checks import databases, examine_files, examine_key_file, examine_modes, examine_place
from tidegate.storage.sqlite.provider import SqliteProvider

_PAGE = 500
_SPELLINGS_MAX = 3
_FORGED = (
    "Erase the agent, then restore it from a backup made before the chain was changed. `tidegate audit verify --anchor "
    "FILE` helps to find when that was."
)
_REINDEX = "Run `tidegate reindex` or `tidegate doctor --repair`."


@dataclass(frozen=True, slots=True)
class Doctor:
    """Examines one home, and makes the safe repairs if asked. Servers may keep running.

    progress: called with a text before each step. anchors: of any agent.
    """

    home: Path
    clock: Callable[[], datetime]
    repair: bool
    progress: Callable[[str], object]
    anchors: Collection[Anchor] = ()

    def examine(self, agent: str | None = None) -> Iterator[Finding]:
        """Yield every finding. agent: examine the contents of this agent alone."""
        if not self.home.exists():
            return
        yield from examine_place(self.home)
        if not os.access(self.home, os.R_OK | os.X_OK):
            return
        yield from examine_modes(self.home, repair=self.repair)
        yield from examine_files(self.home, repair=self.repair)
        files = HomeFiles(self.home)
        unusable = examine_control(files.control, "control.db") if files.control.exists() else []
        yield from unusable
        settings = self._settings()
        yield from settings.findings
        places_known = files.control.exists() and not unusable
        everybody = sorted(path.name for path in self.home.glob("agents/*") if path.is_dir())  # empty ones too
        for name in everybody if agent is None else [agent]:
            yield from self._guidance(name)
            audited = AuditedSessions(name)
            for level in _databases(files, name):
                yield from self._compartment(files.compartment(name, level), audited, level, settings, places_known)
            yield from self._compared(audited)

    def _settings(self) -> _Settings:
        try:
            settings = read_settings(self.home)
            findings = list(examine_key_file(settings.audit.key_file) if settings.audit.key_file else ())
            findings += _channels(settings.channels.values())
            return _Settings(findings, chains_checked=True, secret=settings.audit.secret(), expiry=settings.expiry)
        except TidegateError as failure:
            advice = "Correct it. Until then no command works, every call to a server fails, and no chain is checked."
            problem = _without_name(failure.message, CONFIG_NAME)
            findings = [error(CONFIG_NAME, problem, advice)]
            return _Settings(findings, chains_checked=False, secret=None, expiry=Expiry())

    def _guidance(self, agent: str) -> Iterator[Finding]:
        try:
            chars = len(read_instructions(self.home, agent))
        except StorageError as failure:
            advice = "Correct it. Until then the agent does not answer, and MCP clients get only the guidance."
            yield error(f"agents/{agent}/SPINE.md", _without_name(failure.message, "SPINE.md"), advice)
            return
        if chars > INSTRUCTIONS_CHARS:
            yield warning(
                f"agents/{agent}/SPINE.md",
                f"it is {chars:,} characters long with the guidance on memory; some MCP clients read only the first "
                f"{INSTRUCTIONS_CHARS:,}",
                f"Shorten it by {chars - INSTRUCTIONS_CHARS:,} characters, or put the most important lines first.",
            )

    def _compartment(
        self, path: Path, audited: AuditedSessions, level: Level, settings: _Settings, places_known: bool
    ) -> Iterator[Finding]:
        agent = audited.agent
        where = path.relative_to(self.home).as_posix()
        self.progress(f"examining {where}")
        with closing(SqliteControlStore(HomeFiles(self.home))) as control:
            unusable = examine_compartment(path, where, agent, level, control if places_known else None)
        if unusable:
            yield from unusable
            return
        found = examine_rows(path, where)
        if not places_known:  # already reported; without control.db, whether this file belongs here is unknown
            yield from found
            return
        try:
            with (
                closing(SqliteProvider(self.home, secret=settings.secret)) as provider,
                provider.owner_compartment(agent, level) as compartment,
            ):
                if not any(finding.remedy is Remedy.INDEX for finding in found):
                    found += _contents(compartment, where)
                yield from self._repaired(found, path, compartment)
                yield from self._chain(compartment, where, settings)
                yield from _newly_expiring(compartment, where, settings.expiry)
                audited.add(compartment.entries(), level)
        except StorageError as failure:
            yield error(
                where, failure.message, "Fix this, and run `tidegate doctor` again: the contents were not examined."
            )

    def _compared(self, audited: AuditedSessions) -> Iterator[Finding]:
        try:
            with closing(SqliteProvider(self.home)) as provider:
                yield from audited.compare(provider.control)
        except StorageError:
            return  # about control.db: already reported

    def _chain(self, compartment: OwnerCompartment, where: str, settings: _Settings) -> Iterator[Finding]:
        place = (compartment.agent, compartment.level)
        anchors = [anchor for anchor in self.anchors if (anchor.agent, anchor.level) == place]  # P6
        for problem in verify(compartment, settings.secret, anchors).problems if settings.chains_checked else ():
            entry = "audit" if problem.sequence is None else f"audit entry {problem.sequence}"
            yield error(where, f"{entry}: {problem.text}", problem.advice or _FORGED)

    def _repaired(self, found: list[Finding], path: Path, compartment: OwnerCompartment) -> Iterator[Finding]:
        """Repair what can be repaired, if asked, and yield the findings."""
        wanted = {finding.remedy for finding in found} if self.repair else set[Remedy | None]()
        if Remedy.TAGS in wanted:
            restore_tags(path)
        if Remedy.INDEX in wanted:
            rebuild_index(compartment, self.clock(), self.progress)
        yield from (replace(each, repaired=each.repaired or each.remedy in wanted - {None}) for each in found)


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings that matter here. chains_checked: false when the key of the audit chains is unknown."""

    findings: list[Finding]
    chains_checked: bool
    secret: bytes | None
    expiry: Expiry


def _channels(channels: Iterable[ChannelSettings]) -> Iterator[Finding]:
    for channel in channels:
        if channel.path is not None and not can_append(channel.path):
            yield warning(
                CONFIG_NAME,
                f"channels.{channel.name}: its file cannot be written: results for it are not delivered",
                "Correct `path`, create the folder above the file's own, or give yourself permission.",
            )


def _without_name(message: str, name: str) -> str:
    """Return a message without the name of its file, which the finding already shows."""
    return message.removeprefix(f"{name}: ").removeprefix(f"{name}, ")


def _databases(files: HomeFiles, agent: str) -> list[Level]:
    try:
        return databases(files, agent)
    except StorageError:
        return []  # already reported


def _newly_expiring(compartment: OwnerCompartment, where: str, expiry: Expiry) -> Iterator[Finding]:
    """Yield for each rule on a tag how many memories it covers only because tags are compared without case or form."""
    spellings: defaultdict[str, Counter[str]] = defaultdict(Counter)
    if expiry.tags:
        for record in every(compartment, RecordKind.MEMORY, batch=_PAGE, chars_max=0):
            for tag in expiry.newly_covers(record):
                spellings[fold_tag(tag)][tag] += 1
    for rule in sorted(expiry.tags):
        if found := spellings.pop(fold_tag(rule), None):
            number = found.total()
            written = ", ".join(map(ascii, sorted(found)[:_SPELLINGS_MAX]))
            yield warning(
                where,
                f"expiry.tags: the rule for {rule!a} also covers {number} "
                f"{'memory whose' if number == 1 else 'memories whose'} tag is written differently, such as {written}",
                "If they may expire, do nothing. Otherwise remove the rule, or save them again without that tag.",
            )


def _contents(compartment: OwnerCompartment, where: str) -> list[Finding]:
    """Check that the index counts the same words as a new analysis of the memories."""
    frequencies: Counter[str] = Counter()
    statistics = Statistics()
    with compartment.snapshot():
        for record in every(compartment, RecordKind.MEMORY, batch=_PAGE, chars_max=WHOLE):
            columns = analyse(record.key, record.tags, record.content)
            frequencies.update(columns.terms)
            statistics += Statistics(1, columns.lengths)
        counts = {term: min(count, FREQUENCY_MAX) for term, count in frequencies.items()}
        agrees = compartment.statistics() == statistics and compartment.frequencies(frequencies) == counts
        words = filter(is_word, frequencies)
        agrees = agrees and all(compartment.vocabulary(word, word + "\0", limit=1) == [word] for word in words)
    if agrees:
        return []
    problem = "the search index does not match the memories"
    return [error(where, problem, _REINDEX, remedy=Remedy.INDEX)]
