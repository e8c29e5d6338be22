"""The models of the documents: every field has its sentence, and nothing else fits."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from surefoot.core.plain_values import schema_name
from surefoot.report.schema import DOCUMENTS, json_schema, schema_of

GOLDEN = sorted((Path(__file__).parents[1] / "net" / "golden").glob("*.json"))
REPORT = {"schema": "surefoot/report/1", "report": "out/report.html"}


@pytest.mark.parametrize("command", DOCUMENTS)
def test_every_field_has_a_sentence_and_every_object_is_closed(command: str) -> None:
    found = json_schema(command)
    parts = [*found.get("$defs", {}).values(), *([found] if "properties" in found else [])]
    assert parts
    for part in parts:
        assert part["additionalProperties"] is False, part["title"]
        assert part["description"], part["title"]
        for name, field in part["properties"].items():
            assert re.search(r"\w{2}", field.get("description", "")), f"{part['title']}.{name}"
    assert f'"const": "{schema_name(command)}"' in json.dumps(found)


def test_a_field_that_is_unknown_missing_or_of_another_kind_does_not_fit() -> None:
    schema_of("report").validate_json(json.dumps(REPORT))
    for wrong in (REPORT | {"more": 1}, {"schema": REPORT["schema"]}, REPORT | {"report": 1}):
        with pytest.raises(ValidationError):
            schema_of("report").validate_json(json.dumps(wrong))


def misfits(command: str, document: dict[str, Any]) -> list[str]:
    """What of a golden document does not fit, but for the fields that it leaves out; of a command
    with several kinds of documents, by the kind that it fits best.
    """

    def found(kind: Any) -> list[str]:
        try:
            kind.model_validate_json(json.dumps(document))
        except ValidationError as error:
            return [f"{x['loc']}: {x['msg']}" for x in error.errors() if x["type"] != "missing"]
        return []

    return min(map(found, DOCUMENTS[command]), key=len)


def whole(kept: Any) -> Any:
    """Without the words in place of the entries that a golden list leaves out."""
    if isinstance(kept, dict):
        return {name: whole(x) for name, x in kept.items()}
    if isinstance(kept, list):
        cut = kept and isinstance(kept[0], str) and re.fullmatch(r"\d+ entries", kept[0])
        return [whole(x) for x in (kept[1:] if cut else kept)]
    return kept


@pytest.mark.parametrize("path", GOLDEN, ids=lambda x: x.stem)
def test_the_golden_documents_fit(path: Path) -> None:
    for command, found in json.loads(path.read_text(encoding="utf-8")).items():
        document = {k: whole(x) for k, x in found.items() if k not in ("exit", "tables")}
        if "refused" not in document:
            assert misfits(command, document) == []
            assert len(misfits(command, document | {"more": 1})) == 1


def test_a_command_runs_without_the_models() -> None:
    code = (
        "import sys; sys.argv = ['surefoot', 'list', '--json']\n"
        "from surefoot.cli import main\n"
        "try: main()\n"
        "except SystemExit: print('surefoot.report.schema' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "False"
