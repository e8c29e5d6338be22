"""Parts of the documentation that are generated from surefoot, so that they cannot be out of date.

{commands}              every command with its options, from the command line itself
{public-names}          every name of surefoot.__all__, by autodoc
{documents}             every JSON document, field by field, from its model
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import surefoot
from surefoot.algorithms import Algorithm
from surefoot.cli import COMMANDS, app
from surefoot.report.schema import DOCUMENTS, Part


class Generated(SphinxDirective):
    """A directive whose content is Markdown that a function writes."""

    optional_arguments = 99
    has_content = True
    write: Callable[[list[str], list[str]], Iterator[str]]  # arguments, lines below -> Markdown

    def run(self) -> list[nodes.Node]:
        """Parse what was written, as if it stood in the page; in every build anew."""
        self.env.note_reread()
        lines = list(type(self).write(self.arguments, list(self.content)))
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(
            StringList(lines, self.get_source_info()[0]), 0, holder, match_titles=True
        )
        return holder.children


def generated(write: Callable[[list[str], list[str]], Iterator[str]]) -> type[Generated]:
    """The directive whose content this function writes."""
    return type(write.__name__, (Generated,), {"write": staticmethod(write)})


# Commands


def commands(_: list[str], __: list[str]) -> Iterator[str]:
    """Every command: what it does, its arguments and options by panel, its example."""
    group = typer.main.get_command(app)
    for panel, name, _call, _example in COMMANDS:
        command = group.commands[name]
        yield from (f"## surefoot {name}", "", f"*{panel}.* {command.help}", "")
        yield from options_of(command)
        yield from (f"Example: `{command.epilog.removeprefix('Example: ')}`", "")


def options_of(command: Any) -> Iterator[str]:
    """The arguments, then the options panel by panel."""
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        panel = getattr(parameter, "rich_help_panel", None) or "Arguments"
        panels.setdefault(str(panel), []).append(parameter)
    yield from ("| option | meaning |", "|---|---|")
    for panel, parameters in panels.items():
        yield f"| **{panel}** | |"
        for x in parameters:
            words = x.opts[0] if x.opts[0].startswith("-") else ""
            shown = f"{words} {x.metavar or ''}".strip()
            yield f"| `{shown}` | {cell(x.help or '')}{default_of(x)} |"
    yield ""


def default_of(parameter: Any) -> str:
    """What the help says in brackets."""
    if parameter.required:
        return " *Required.*"
    shown = getattr(parameter, "show_default", None)
    if isinstance(shown, str):
        return f" Default: {cell(shown)}."
    plain = parameter.default
    if shown and plain not in (None, "", False) and not callable(plain):
        return f" Default: `{plain}`."
    return ""


def cell(text: str) -> str:
    """Text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


# Public names


def public_names(_: list[str], __: list[str]) -> Iterator[str]:
    """One section a kind, in it every name by autodoc."""
    kinds: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name in surefoot.__all__:
        kinds[kind_of(getattr(surefoot, name))].append(name)
    for kind, names in kinds.items():
        yield from (f"## {kind}", "", KINDS[kind][1], "")
        for name in names:
            yield from ("```{eval-rst}", *entry(name, KINDS[kind][0]), "```", "")


KINDS = {
    "Functions": ("function", "What you call."),
    "Data": ("class", "What the functions take and give. All are frozen."),
    "Algorithms": (
        "class",
        "Hyper-parameters in, policy out; [one page each](algorithms/index.md).",
    ),
    "Errors": ("exception", "All are a `SurefootError`, and say what to do."),
    "Tables": ("data", "Names to classes."),
    "Modules": ("module", "With more inside."),
}


def kind_of(x: Any) -> str:
    """The section of a public name."""
    if inspect.ismodule(x):
        return "Modules"
    if not inspect.isclass(x):
        return "Functions" if callable(x) else "Tables"
    if issubclass(x, Exception):
        return "Errors"
    return "Algorithms" if issubclass(x, Algorithm) else "Data"


def entry(name: str, role: str) -> Iterator[str]:
    """The directives of one name."""
    if role == "module":
        yield from (f".. py:module:: surefoot.{name}", "   :no-index:", "")
        yield from (f"**surefoot.{name}**", "")
        yield from described(inspect.getdoc(getattr(surefoot, name)) or "")
        yield from inside(name)
    elif role == "data":
        yield from (f".. py:data:: surefoot.{name}", "")
        yield f"   {', '.join(f'``{x}``' for x in getattr(surefoot, name))}"
    else:
        yield f".. auto{role}:: surefoot.{name}"
        if role == "class":
            yield "   :members:"


def inside(name: str) -> Iterator[str]:
    """The names of a module: in full what stands nowhere else, the others as a list."""
    module, above = getattr(surefoot, name), {id(getattr(surefoot, x)) for x in surefoot.__all__}
    listed = []
    for x in module_names(module):
        value = getattr(module, x)
        if not callable(value) or id(value) in above:
            listed.append(f"``{x}``")
        else:
            kind = "class" if inspect.isclass(value) else "function"
            yield from (f".. auto{kind}:: surefoot.{name}.{x}", "")
    if listed:
        yield from ("", f"And {', '.join(listed)}.", "")


def module_names(module: Any) -> list[str]:
    """The public names of a module."""
    own = (x for x, y in vars(module).items() if getattr(y, "__module__", "") == module.__name__)
    return list(getattr(module, "__all__", None) or sorted(x for x in own if x[0] != "_"))


def described(text: str) -> list[str]:
    """A docstring of surefoot as reStructuredText: prose as prose, all that is indented as it is.

    `x` is code; other signs mean nothing.
    """
    lines: list[str] = []
    for paragraph in re.split(r"\n[ \t]*\n", text):
        rows = paragraph.split("\n")
        columns = any(re.match(r"\S.*?\S {2,}\S", row) for row in rows[:1]) and len(rows) > 1
        code = rows[0].startswith((" ", ">>>")) or columns or any(r.startswith(" ") for r in rows)
        if code:
            lines += ["", ".. code-block:: text", "", *(f"   {row}" for row in rows), ""]
        else:
            lines += ["", *(prose(row) for row in rows), ""]
    return lines


def prose(line: str) -> str:
    """One line without markup but code."""
    parts = re.split(r"`([^`]*)`", line)
    for i, part in enumerate(parts):
        parts[i] = f"``{part}``" if i % 2 else re.sub(r"([\\*|_])", r"\\\1", part)
    return "".join(parts)


def plain_docstring(app: Sphinx, what: str, name: str, x: Any, o: Any, lines: list[str]) -> None:
    """Docstrings of surefoot are plain text, not reStructuredText."""
    lines[:] = described("\n".join(lines))


# JSON documents


def documents(_: list[str], __: list[str]) -> Iterator[str]:
    """Every document with its fields, then the objects that several fields hold."""
    shared = shared_parts()
    for forms in DOCUMENTS.values():
        yield from (f"## {forms[0].model_fields['schema_'].annotation.__args__[0]}", "")
        for form in forms:
            yield from (" ".join(inspect.getdoc(form).split()), "")
            yield from table_of(form, shared)
    yield from ("## Objects that several fields hold", "")
    for part in shared:
        yield from (f"### {heading(part)}", "", " ".join(inspect.getdoc(part).split()), "")
        yield from table_of(part, shared)


def shared_parts() -> list[type[Part]]:
    """The objects that more than one field holds, in the order in which they come."""
    seen: dict[type[Part], int] = {}

    def look(part: type[Part]) -> None:
        for field in own_fields(part).values():
            for inner in parts_in(field.annotation):
                seen[inner] = seen.get(inner, 0) + 1
                if seen[inner] == 1:
                    look(inner)

    for form in (x for forms in DOCUMENTS.values() for x in forms):
        look(form)
    return [part for part, times in seen.items() if times > 1]


def own_fields(part: type[Part]) -> dict[str, Any]:
    """The fields of an object; of a document that extends another, those that it adds."""
    above = part.__mro__[1]
    printed = [x for forms in DOCUMENTS.values() for x in forms]
    known = set(above.model_fields) if above in printed else {"schema_"}
    return {x.alias or k: x for k, x in part.model_fields.items() if k not in known}


def parts_in(annotation: Any) -> list[type[Part]]:
    """The objects in a type."""
    if inspect.isclass(annotation) and issubclass(annotation, Part):
        return [annotation]
    return [x for inner in get_args(annotation) for x in parts_in(inner)]


def heading(part: type[Part]) -> str:
    """HeldOut as "held out"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", part.__name__).lower()


def table_of(part: type[Part], shared: list[type[Part]]) -> Iterator[str]:
    """The fields of an object, and below each those of an object that no other field holds."""
    yield from ("| field | type | meaning |", "|---|---|---|")
    yield from rows_of(part, shared, "")
    yield ""


def rows_of(part: type[Part], shared: list[type[Part]], before: str) -> Iterator[str]:
    """One row a field; `before` are the names of the objects around it."""
    for name, field in own_fields(part).items():
        name = before + name
        inner = parts_in(field.annotation)
        links = [f"[{heading(x)}](#{heading(x).replace(' ', '-')})" for x in inner if x in shared]
        meaning = "; ".join(filter(None, (field.description, ", ".join(links))))
        meaning += "" if field.is_required() else "; *not always there*"
        yield f"| `{name}` | {type_words(field.annotation)} | {meaning} |"
        name += "[]" * (get_origin(field.annotation) is list)
        for x in inner:
            if x not in shared:
                yield from rows_of(x, shared, f"{name}.")


def type_words(annotation: Any) -> str:
    """A type as JSON has it."""
    plain = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    plain |= {NoneType: "null", Any: "anything"}
    if annotation in plain:
        return plain[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f'"{x}"' for x in inner)
    if origin is list:
        return f"list: {type_words(inner[0])}"
    if origin is Mapping:
        return f"{type_words(inner[1])}, by name"
    if inner:
        return " or ".join(dict.fromkeys(map(type_words, inner)))
    return "object"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    for name, write in {
        "commands": commands,
        "public-names": public_names,
        "documents": documents,
    }.items():
        app.add_directive(name, generated(write))
    app.connect("autodoc-process-docstring", plain_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
