"""A policy in use: from a row of measurements to an action, for one row, a file, or a program.

controller    encoder, policy and fallback as one object that is saved and loaded
whole_files   what a policy would have done in every row of a file
exports       a policy for other programs: SQL, JSON and Structured Text
"""

from surefoot.serving.controller import Controller, load_controller
from surefoot.serving.discretize import Discretized, discretize
from surefoot.serving.encoders import (
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
from surefoot.serving.exports import case_when, export
from surefoot.serving.structured_text import function_block
from surefoot.serving.whole_files import Applied, apply

__all__ = [
    "Applied",
    "Controller",
    "Discretized",
    "Encoder",
    "KMeansEncoder",
    "QuantileEncoder",
    "apply",
    "case_when",
    "discretize",
    "encoder_document",
    "encoder_of",
    "export",
    "fit_kmeans",
    "fit_quantiles",
    "function_block",
    "load_controller",
    "read_encoder",
    "write_encoder",
]
