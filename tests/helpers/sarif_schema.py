"""The schemas that reporters are held to.

The official SARIF 2.1.0 schema is used when GPUDOCTOR_SARIF_SCHEMA names a copy of it. Without one, the shape below,
written from the standard for the objects that we emit, is stricter: it admits no key that we do not mean to write.
"""

import json
import os
from functools import cache
from importlib.resources import files
from pathlib import Path

import jsonschema


@cache
def report_schema() -> dict:
    return json.loads(files("gpudoctor.report").joinpath("report-1.schema.json").read_text("utf-8"))


_CHECKED: dict[int, tuple[dict, jsonschema.Draft202012Validator]] = {}
"""By the schema's identity: the schema, which lives as long as this, and its validator."""


def validate(document: object, schema: dict) -> None:
    """Raise when a document does not follow a schema. The schema itself is checked once: that takes longer."""
    if id(schema) not in _CHECKED:
        jsonschema.Draft202012Validator.check_schema(schema)
        _CHECKED[id(schema)] = schema, jsonschema.Draft202012Validator(schema)
    _CHECKED[id(schema)][1].validate(document)


def check_sarif(document: dict) -> None:
    """Raise when the document is no SARIF 2.1.0."""
    validate(document, SHAPE)
    official = _official()
    if official is not None:
        official.validate(document)
    run = document["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        if "ruleIndex" in result:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    prints = [result["partialFingerprints"]["gpudoctorFinding/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)


@cache
def _official():
    path = os.environ.get("GPUDOCTOR_SARIF_SCHEMA")
    if not path:
        return None
    schema = json.loads(Path(path).read_text("utf-8"))
    return jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)


def _object(required: str = "", **properties: object) -> dict:
    return {"type": "object", "required": required.split(), "properties": properties, "additionalProperties": False}


def _list(items: object, **limits: object) -> dict:
    return {"type": "array", "items": items, **limits}


_TEXT = {"type": "string"}
_LONG = {"type": "string", "minLength": 1}
_PLACE = {"type": "integer", "minimum": 1}
_INDEX = {"type": "integer", "minimum": 0}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_BAG = {"type": "object"}
_MESSAGE = _object("text", text=_LONG)
_MULTIFORMAT = _object("text", text=_LONG, markdown=_LONG)
# A URI reference: no white space, no character outside of RFC 3986, and no bare percent sign.
_URI = {"type": "string", "pattern": r"^([A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*$"}
_ARTIFACT = _object("uri", uri=_URI, uriBaseId={"const": "%SRCROOT%"})
_REGION = _object(
    startLine=_PLACE, startColumn=_PLACE, endLine=_PLACE, endColumn=_PLACE, snippet=_object("text", text=_TEXT)
)
_PHYSICAL = _object("artifactLocation", artifactLocation=_ARTIFACT, region=_REGION)
_LOCATION = {**_object(physicalLocation=_PHYSICAL), "minProperties": 1}
_RESULT = _object(
    "ruleId level message locations partialFingerprints",
    ruleId=_LONG,
    ruleIndex=_INDEX,
    level=_LEVEL,
    kind={"const": "fail"},
    message=_MESSAGE,
    locations=_list(_LOCATION, maxItems=1),
    partialFingerprints={"type": "object", "additionalProperties": _LONG, "minProperties": 1},
    properties=_BAG,
    suppressions=_list(
        _object(
            "kind",
            kind={"enum": ["inSource", "external"]},
            status={"enum": ["accepted", "underReview", "rejected"]},
            justification=_TEXT,
            properties=_BAG,
        )
    ),
    fixes=_list(
        _object(
            "artifactChanges",
            description=_object("text", text=_TEXT),
            artifactChanges=_list(
                _object(
                    "artifactLocation replacements",
                    artifactLocation=_ARTIFACT,
                    replacements=_list(
                        _object("deletedRegion", deletedRegion=_REGION, insertedContent=_object("text", text=_TEXT)),
                        minItems=1,
                    ),
                ),
                minItems=1,
            ),
        )
    ),
)
_RULE = _object(
    "id",
    id=_LONG,
    name=_LONG,
    shortDescription=_MULTIFORMAT,
    fullDescription=_MULTIFORMAT,
    help=_MULTIFORMAT,
    properties=_BAG,
)
_NOTIFICATION = _object("message", level=_LEVEL, message=_MESSAGE, associatedRule=_object("id", id=_LONG, index=_INDEX))
_RUN = _object(
    "tool results",
    tool=_object("driver", driver=_object("name", name=_LONG, semanticVersion=_LONG, rules=_list(_RULE))),
    automationDetails=_object(id=_LONG),
    invocations=_list(
        _object(
            "executionSuccessful",
            executionSuccessful={"type": "boolean"},
            exitCodeDescription=_TEXT,
            toolExecutionNotifications=_list(_NOTIFICATION),
        ),
        minItems=1,
        maxItems=1,
    ),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=_list(_RESULT),
    properties=_BAG,
)
SHAPE = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {"$schema": _URI, "version": {"const": "2.1.0"}, "runs": _list(_RUN, minItems=1, maxItems=1)},
    "additionalProperties": False,
}
