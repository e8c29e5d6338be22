"""Encoders as JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from surefoot.atomic import write_whole
from surefoot.encoding.encoders import Encoder, KMeansEncoder, QuantileEncoder
from surefoot.errors import LogError, SurefootError

FORMAT = "surefoot encoder 1"


def write_encoder(encoder: Encoder, path: str | Path) -> None:
    """Save an encoder as JSON."""
    fields: dict[str, Any] = (
        {"edges": encoder.edges, "missing": encoder.missing}
        if isinstance(encoder, QuantileEncoder)
        else {"mean": encoder.mean, "scale": encoder.scale, "centres": encoder.centres}
    )
    content = {"format": FORMAT, "method": encoder.method, "features": encoder.features} | fields
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_encoder(path: str | Path) -> Encoder:
    """The encoder of a JSON file."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise LogError(f"{path} is no encoder: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise LogError(
            f"{path} is no encoder: a JSON file with format {FORMAT!r} was expected, as surefoot"
            " discretize writes it"
        )
    try:
        features = tuple(content["features"])
        if content["method"] == QuantileEncoder.method:
            return QuantileEncoder(
                features, _rows(content["edges"]), tuple(content.get("missing", ()))
            )
        if content["method"] == KMeansEncoder.method:
            mean, scale = (tuple(map(float, content[name])) for name in ("mean", "scale"))
            return KMeansEncoder(features, mean, scale, _rows(content["centres"]))
    except SurefootError as error:
        raise type(error)(f"{path} is an encoder with a fault: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise LogError(
            f"{path} is an encoder with a fault: {type(error).__name__} {error}"
        ) from error
    raise LogError(
        f"{path} is an encoder of an unknown method {content['method']!r}: quantile and kmeans are"
        " known"
    )


def _rows(table: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in table)
