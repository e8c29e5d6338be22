"""Encoding: continuous logs become logs of states, with an encoder that does the same to new
rows.
"""

from surefoot.encoding.discretize import Discretized, discretize
from surefoot.encoding.encoder_files import read_encoder, write_encoder
from surefoot.encoding.encoders import (
    Encoder,
    KMeansEncoder,
    QuantileEncoder,
    fit_kmeans,
    fit_quantiles,
)
from surefoot.encoding.mixing import Mixing, in_words

__all__ = [
    "Discretized",
    "Encoder",
    "KMeansEncoder",
    "Mixing",
    "QuantileEncoder",
    "discretize",
    "fit_kmeans",
    "fit_quantiles",
    "in_words",
    "read_encoder",
    "write_encoder",
]
