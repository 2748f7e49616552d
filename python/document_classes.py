"""The classes of documents: from the tables that describe them, and from documents themselves."""

import collections
import re

import _runtime

# Endings of keys, the longer ones first.
UNITS = {"_per_s": "1/s", "_gpu_s": "GPU-s", "_s": "s", "_us": "µs", "_GiB": "GiB", "_MiB": "MiB",
         "_bytes": "bytes", "_pct": "%", "_W": "W", "GBps": "10⁹ bytes per second",
         "tflops": "10¹² FLOP/s", "tflops_per_gpu": "10¹² FLOP/s"}
MAY_BE_ABSENT = r"[Aa]bsent\b|[Oo]ptional\b|^Only where|^With `-"


def unit_of(key):
    return next((unit for ending, unit in UNITS.items() if key.endswith(ending)), "")


class Node:
    """What is known of a place in documents: keys of an object, a list's item, kinds of scalars."""

    def __init__(self):
        self.fields, self.item, self.scalars = {}, None, set()
        self.text, self.times, self.objects, self.is_map, self.name = "", 0, 0, False, None
        self.is_root = False

    def at(self, path):
        """Returns the node at `plans[].config`, and makes what is missing."""
        node = self
        for key in path.split("."):
            node = node.fields.setdefault(key.replace("[]", ""), Node())
            for _ in range(key.count("[]")):
                node.item = node.item or Node()
                node = node.item
        return node

    def add(self, value):
        """Learns from what stands at this place of a sample."""
        self.times += 1
        if isinstance(value, dict):
            self.objects += 1
            for key, item in value.items():
                self.fields.setdefault(key, Node()).add(item)
        elif isinstance(value, list):
            self.item = self.item or Node()
            for item in value:
                self.item.add(item)
        else:
            self.scalars.add(type(value).__name__)

    def merge(self, other):
        """Learns all that another place of the same kind of object shows."""
        self.text, self.is_map = self.text or other.text, self.is_map or other.is_map
        self.times, self.objects = self.times + other.times, self.objects + other.objects
        self.scalars |= other.scalars
        for key, field in other.fields.items():
            self.fields.setdefault(key, Node()).merge(field)
        if other.item:
            self.item = self.item or Node()
            self.item.merge(other.item)

    def place(self):
        """Gives what tables say of keys that are deeper in documents to these."""
        inner = [self]
        for node in inner:
            inner += [field.object() for field in node.fields.values() if field.object()]
        for key in [key for key, field in self.fields.items() if self.times and not field.times]:
            for node in inner[1:]:
                if key in node.fields and node.fields[key].times:
                    node.fields[key].merge(self.fields.pop(key))
                    break

    def object(self):
        """Returns the node of the objects that this one holds, through lists, or None."""
        node = self
        while node.item:
            node = node.item
        return node if node.fields and not node.is_map else None


def plain(text):
    """Returns text of Markdown for a docstring."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return text.replace("\\", "\\\\").replace('"""', "'''").strip()


def paths_of(cell, parent):
    """Yields the paths that a row's first cell names, each with what later names with a dot hang
    on: `predicted.mfu`, `.hfu`, `…_interval` are four."""
    paths = []
    for word in " ".join(re.findall("`([^`]+)`", cell)).split():
        if word.startswith("…"):
            new = [path + word[1:] for path in paths]
        else:
            path = parent + word if word.startswith(".") else word
            if not word.startswith("."):
                parent = path if path.endswith("[]") else path.rpartition(".")[0]
            new = [path]
        paths += new
        yield from ((path, parent) for path in new)


def described(formats):
    """Returns by schema what FORMATS.md, or a page like it, says of it: a node."""
    schemas = {}
    for section in re.split(r"^## ", formats, flags=re.MULTILINE)[1:]:
        schema = re.match(r".*`(ptdp\.[^`]+/\d)`\n", section)
        if schema is None:
            continue
        root, parent, column = schemas.setdefault(schema[1], Node()), "", 0
        root.text = plain(section.partition("\n\n")[2].partition("\n\n")[0].replace("\n", " "))
        for line in section.splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not line.startswith("|"):
                parent, column = "", 0
            elif cells[0].startswith("key"):
                column = cells.index("what it is") if "what it is" in cells else 0
            elif column and len(cells) > column:
                for path, parent in paths_of(cells[0], parent):
                    node = root.at(path.split(".*")[0])
                    node.is_map = node.is_map or path.endswith(".*")
                    node.text = plain(cells[column])
    return schemas


def type_of(node, key="", is_optional=False):
    """Returns the annotation of a node."""
    kinds = []
    if node.name:
        kinds.append(node.name)
    elif node.fields:
        values = Node()
        for field in node.fields.values():
            values.merge(field)
        kinds.append(f"dict[str, {type_of(values, key)}]")
    if node.item:
        kinds.append(f"list[{type_of(node.item, key)}]")
    scalars = node.scalars - {"NoneType"}
    if "float" in scalars or unit_of(key) not in ("", "bytes"):
        scalars = {"float" if kind == "int" else kind for kind in scalars}
    kinds += sorted(scalars)
    if not kinds:
        return "Any"
    return " | ".join(kinds + ["None"] * (is_optional or "NoneType" in node.scalars))


def camel(key):
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"\W|_", key))


class Classes:
    """The classes of all documents. Objects of one name with most keys in common have one class."""

    def __init__(self, schemas):
        self.schemas, self.known, self.classes = schemas, collections.defaultdict(list), {}
        for schema, root in schemas.items():
            root.name, root.is_root = camel(schema[5:].partition("/")[0]), True
            self.classes[root.name] = root
            self.known[root.name].append(root)
        for root in schemas.values():
            root.place()
        for root in schemas.values():
            self.name_objects(root, root.name)

    def name_objects(self, node, owner):
        for key, field in node.fields.items():
            inner = field.object()
            if inner is None or inner.name:
                continue
            # Keyed by what is measured, not by names of its own.
            if unit_of(key):
                inner.is_map = True
                continue
            self.adopt(inner, key, owner, inner is not field)

    def adopt(self, node, key, owner, is_listed):
        name = camel(re.sub("(?<=[^s])s$", "", re.sub("ies$", "y", key)) if is_listed else key)
        keys = node.fields.keys()
        for twin in self.known[name]:
            common, others = len(keys & twin.fields.keys()), len(keys | twin.fields.keys())
            if common > 0.7 * len(keys) and (twin.is_root or 2 * common >= others):
                twin.merge(node)
                node.fields, node.name = twin.fields, twin.name
                self.name_objects(twin, twin.name)
                return
        self.known[name].append(node)
        node.text = node.text or f"`{key}` of {owner}."
        while name in self.classes:
            name = owner + name
        node.name, self.classes[name] = name, node
        self.name_objects(node, name)

    def text(self):
        lines = ['"""Documents that commands answer with. Made from FORMATS.md and of answers."""',
                 "", "from __future__ import annotations", "", "from typing import Any", "",
                 "from ptdp._runtime import Result, View, _key"]
        schemas = {root.name: schema for schema, root in self.schemas.items()}
        for name, node in self.classes.items():
            lines += ["", "", *self.class_lines(name, node, schemas.get(name))]
        return "\n".join([*lines, "", "", f"__all__ = {sorted(schemas)!r}", ""])

    def class_lines(self, name, node, schema):
        owner = _runtime.Result if schema else _runtime.View
        yield f"class {name}({owner.__name__}" + (f', schema="{schema}"):' if schema else "):")
        yield f'    """{node.text}"""'
        yield ""
        if schema:
            rows = [key for key, field in node.fields.items()
                    if field.item and field.item.objects and field.object()]
            yield f"    _rows = {tuple(rows)!r}"
        for key, field in node.fields.items():
            inner, unit = field.object(), unit_of(key)
            text = field.text or (inner or field).text or f"See {name}."
            text += f" [{unit}]" if unit and "[" not in text else ""
            is_optional = field.times < node.objects or re.search(MAY_BE_ABSENT, text) is not None
            attribute = _runtime.identifier(key, owner)
            kind = inner.name if inner else "dict" if (field.item or field).fields else ""
            given = [repr(text)] + [repr(kind)] * bool(kind)
            given += [f"name={key!r}"] if key != attribute else []
            yield f"    {attribute}: {type_of(field, key, is_optional)} = _key({', '.join(given)})"
        if {"plans", "candidates"} <= node.fields.keys():
            kind = type_of(node.fields["plans"].item)
            yield from ["", "    @property", f"    def best(self) -> {kind}:",
                        '        """The first of `plans`; IndexError where NothingFits was caught."""',
                        "        return self.plans[0]"]
