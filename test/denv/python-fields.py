"""Prints the fields of every TypedDict of a module as JSON: name → field → whether it is required, and its kinds of value."""

import importlib.util
import json
import sys
import types
import typing

BASIC = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def kinds(hint):
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return [kind for option in typing.get_args(hint) for kind in kinds(option)]
    if origin is typing.Literal:
        return [json.dumps(value) for value in typing.get_args(hint)]
    if origin is list:
        return ["array"]
    if hint is typing.Any:
        return ["any"]
    return [BASIC.get(hint, "object")]


def fields(made):
    found = {}
    for name, hint in typing.get_type_hints(made, include_extras=True).items():
        optional = typing.get_origin(hint) is typing.NotRequired
        value = typing.get_args(hint)[0] if optional else hint
        found[name] = {"required": made.__total__ and not optional, "kinds": sorted(set(kinds(value)))}
    return found


spec = importlib.util.spec_from_file_location("types_of_denv", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module  # where its annotations are looked up
spec.loader.exec_module(module)
print(json.dumps({name: fields(made) for name, made in vars(module).items() if typing.is_typeddict(made)}))
