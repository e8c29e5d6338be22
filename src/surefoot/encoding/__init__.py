"""Encoding: continuous logs become logs of states; an encoder does the same to new rows.

discretize   a log with features in, a log with a state column out
encoders     from features to a state; fitting them; their files
features     the rows of a log as they came, and their features as numbers
"""

from surefoot.encoding.discretize import Discretized, discretize
from surefoot.encoding.encoders import (
    Encoder,
    KMeansEncoder,
    QuantileEncoder,
    encoder_document,
    encoder_of,
    fit_kmeans,
    fit_quantiles,
    read_encoder,
    write_encoder,
)
from surefoot.encoding.features import Mixing

__all__ = [
    "Discretized",
    "Encoder",
    "KMeansEncoder",
    "Mixing",
    "QuantileEncoder",
    "discretize",
    "encoder_document",
    "encoder_of",
    "fit_kmeans",
    "fit_quantiles",
    "read_encoder",
    "write_encoder",
]
