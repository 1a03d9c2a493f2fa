"""Every provider against the contract of storage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.storage.conformance import Conformance
from tests.yardstick.backends import BACKENDS, Backend

from tidegate.storage.base import StorageProvider


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made = BACKENDS[request.param]()
    yield made
    made.close()


@pytest.fixture
def provider(backend: Backend) -> Iterator[StorageProvider]:
    made = backend.provider()
    yield made
    made.close()


class TestEveryProvider(Conformance):
    """The claims, once a provider."""
