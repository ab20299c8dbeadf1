# SPDX-License-Identifier: Apache-2.0
"""JSON Schema (draft 2020-12), as much of it as the schemas in docs use.

    errors(value, "#/$defs/replies/execute")    sentences; none: it is valid

An unknown keyword would not be validated, so it is an error of the schema.
"""

import json
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
with open(os.path.join(ROOT, "docs/commands.schema.json"), encoding="utf-8") as f:
    SCHEMA = json.load(f)

SILENT = {"$schema", "$id", "$defs", "title", "description"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool,
         "number": (int, float), "integer": int}


def resolve(ref):
    """The subschema at REF, "#/a/b"."""
    at = SCHEMA
    if ref[:2] != "#/":
        raise ValueError(f"no reference within the schema: {ref}")
    for key in ref[2:].split("/"):
        at = at[key]
    return at


def is_type(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[name])


def same(a, b):
    """1 is not true."""
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def of_object(value, schema, where):
    known = schema.get("properties", {})
    for key in schema.get("required", []):
        if key not in value:
            yield f"{where}: {key} is missing"
    for key, inner in value.items():
        rule = known.get(key, schema.get("additionalProperties", True))
        if rule is False:
            yield f"{where}: {key} should not be there"
        yield from check(inner, True if rule is False else rule, f"{where}.{key}")


def of_array(value, schema, where):
    if len(value) < schema.get("minItems", 0):
        yield f"{where}: {len(value)} elements are too few"
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{where}: {len(value)} elements are too many"
    for i, inner in enumerate(value):
        yield from check(inner, schema.get("items", True), f"{where}[{i}]")


def of_string(value, schema, where):
    if len(value) < schema.get("minLength", 0):
        yield f"{where}: {value!r} is too short"
    if not re.search(schema.get("pattern", ""), value):
        yield f"{where}: {value!r} is not like {schema['pattern']}"


def of_number(value, schema, where):
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{where}: {value} is out of range"


# keyword: what it is for
KEYWORDS = {"required": of_object, "properties": of_object, "additionalProperties": of_object,
            "items": of_array, "minItems": of_array, "maxItems": of_array,
            "minLength": of_string, "pattern": of_string,
            "minimum": of_number, "maximum": of_number}


def of_several(value, schema, where):
    for keyword, fits in (("anyOf", lambda n: n > 0), ("oneOf", lambda n: n == 1)):
        if keyword not in schema:
            continue
        why = [list(check(value, s, where)) for s in schema[keyword]]
        n = sum(not w for w in why)
        if not fits(n):
            nearest = min(why, key=len)
            yield f"{where}: fits {n} of {keyword}; the nearest: {'; '.join(nearest[:3])}"


_right = set()  # objects for which that was found: (reference, text)


def check_named(value, ref, where):
    """What is wrong by the definition REF; once for equal objects, as long batches have."""
    key = (ref, json.dumps(value)) if isinstance(value, dict) and len(value) < 100 else None
    if key in _right:
        return
    wrong = False
    for sentence in check(value, resolve(ref), where):
        wrong = True
        yield sentence
    if key and not wrong:
        _right.add(key)


def check(value, schema, where="it"):
    """Sentences: what is wrong with VALUE."""
    if schema is True:
        return
    if schema is False:
        yield f"{where}: nothing may be there"
        return
    unknown = set(schema) - set(KEYWORDS) - SILENT - {"$ref", "type", "const", "enum", "anyOf",
                                                      "oneOf"}
    if unknown:
        raise ValueError(f"keywords that tests/tools/schema.py does not know: {unknown}")
    if "$ref" in schema:
        yield from check_named(value, schema["$ref"], where)
    if "type" in schema and not is_type(value, schema["type"]):
        yield f"{where}: {value!r} is not of type {schema['type']}"
        return
    if "const" in schema and not same(value, schema["const"]):
        yield f"{where}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and not any(same(value, e) for e in schema["enum"]):
        yield f"{where}: {value!r} is none of {schema['enum']}"
    yield from of_several(value, schema, where)
    kinds = {dict: of_object, list: of_array, str: of_string, int: of_number, float: of_number}
    kind = None if isinstance(value, bool) else kinds.get(type(value))
    if kind and any(KEYWORDS.get(key) is kind for key in schema):
        yield from kind(value, schema, where)


def errors(value, ref):
    return list(check_named(value, ref, "it"))


def reply_errors(op, reply, is_async=False):
    """The errors of the REPLY to a command OP."""
    if not isinstance(reply, dict) or not reply.get("ok"):
        return errors(reply, "#/$defs/failure")
    if is_async:
        return errors(reply, "#/$defs/started")
    return errors(reply, f"#/$defs/replies/{op}")


def reply_of(request):
    """The op whose replies answer REQUEST."""
    return "batch" if "buffers" in request else request["op"]


def pair_errors(request, reply):
    """The errors of REPLY, and of REQUEST if it was not refused."""
    if not reply.get("ok"):
        found = reply_errors("", reply)
        steps = request.get("steps") if isinstance(request, dict) else None
    else:
        # That of its op alone; commands_schema.py has all of "#/$defs/command".
        found = errors(request, f"#/$defs/requests/{request['op']}")
        found += reply_errors(reply_of(request), reply, request.get("async", False))
        steps = request.get("steps")
    if isinstance(steps, list):
        for step, inner in zip(steps, reply.get("replies", [])):
            found += pair_errors(step, inner) if isinstance(step, dict) else []
    return found


def main():
    """Each line of standard input is a request, a tab and its reply."""
    n = failed = 0
    for line in sys.stdin:
        request, reply = (json.loads(part) for part in line.split("\t"))
        n += 1
        for sentence in pair_errors(request, reply):
            failed += 1
            print(f"{request} -> {reply}: {sentence}")
    print(f"{n} replies, {failed} errors")
    sys.exit(1 if failed or not n else 0)


if __name__ == "__main__":
    main()
