"""Every provider against the contract of storage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.storage.conformance import Conformance
from tests.yardstick.backends import Backend

from tidegate.storage.base import StorageProvider


@pytest.fixture(autouse=True)
def _empty(backend: Backend) -> None:
    backend.erase()


@pytest.fixture
def provider(backend: Backend) -> Iterator[StorageProvider]:
    made = backend.provider()
    yield made
    made.close()


class TestEveryProvider(Conformance):
    """The claims, once a provider."""
