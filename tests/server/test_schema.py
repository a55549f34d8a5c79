"""What the OpenAPI document promises, tried by schemathesis: no other answer than it says."""

import json
from contextlib import suppress
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from cortado.tests.server.running import Running

EXAMPLES = 10  # of each operation, in each mode
ALONE = "/reload"  # makes an engine; `test_app.py` has it


@pytest.mark.parametrize("mode", GenerationMode)
def test_the_server_answers_as_its_document_says(mode: GenerationMode, at_rest: Running) -> None:
    document = httpx.get(f"{at_rest.page}/openapi.json").text
    document = document.replace("audio/*", "application/octet-stream")  # which it knows to send
    schema = schemathesis.openapi.from_dict(json.loads(document)).exclude(path=ALONE)
    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    tried = set()
    for found in schema.get_all_operations():
        operation = found.ok()  # type: ignore[union-attr]
        tried.add(operation.label)

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(base_url=at_rest.page, checks=checks, timeout=30)

        with suppress(Unsatisfiable):  # nothing can be wrong where nothing is asked for
            holds()
    assert {"POST /v1/listen", "POST /v1/audio/transcriptions", "GET /v1/info"} <= tried
