#!/usr/bin/env python3
"""Prints the facts of a running Redis as lines of the command table, to copy into src/table/ by hand.

Run it when a new Redis brings commands, against a node of that version:

    redis-server --port 27601 --save '' --daemonize no &
    python3 crates/command/facts/refresh.py 27601              # every command
    python3 crates/command/facts/refresh.py 27601 hset object  # only these

The column `carry` is a guess (`Shard` with keys, `later` without): it is the decision that the table is for.
tests/against_redis compares all other columns with a running server.
"""

import json
import subprocess
import sys

IMPLIED = {"readonly": "read", "write": "write", "admin": "admin", "pubsub": "pubsub", "blocking": "blocking"}
WIDTH = 110


def ask(port, *words):
    """The reply of the server on `port`, as JSON."""
    return json.loads(subprocess.check_output(["redis-cli", "-p", port, "--json", *words]))


def quoted(words):
    return json.dumps(" ".join(words))


def explicit_acl(flags, acl):
    """The categories that do not follow from the flags."""
    acl = [word.removeprefix("@") for word in acl]
    implied = {IMPLIED[flag] for flag in flags if flag in IMPLIED}
    if "admin" in flags:
        implied.add("dangerous")
    if "scripting" in acl:
        implied.discard("read")
    return [word for word in acl if word not in implied | {"fast", "slow"}]


def find_text(find):
    """The constant of table.rs for what a spec finds behind a keyword."""
    spec = find["spec"]
    return {(0, 0): "NEXT", (-1, 0): "REST", (-1, 2): "FIRST_HALF"}[spec["lastkey"], spec["limit"]]


def spec_text(spec):
    """A key spec as a call of one of the constructors in table.rs."""
    flags = quoted(spec["flags"])
    begin, find = spec["begin_search"], spec["find_keys"]
    at = begin["spec"]
    kind = begin["type"], find["type"]
    if kind == ("index", "range"):
        last, step = find["spec"]["lastkey"], find["spec"]["keystep"]
        text = f"key({at['index']}, {flags})" if last == 0 else f"keys({at['index']}, {last}, {step}, {flags})"
    elif kind == ("index", "keynum"):
        text = f"counted({at['index']}, {flags})"
    elif kind == ("keyword", "range"):
        text = f"behind(\"{at['keyword']}\", {at['startfrom']}, {find_text(find)}, {flags})"
    else:
        text = f"unknown({flags})"
    return text + (f".note({json.dumps(spec['notes'])})" if "notes" in spec else "")


def guess(entry):
    return "Shard" if entry[8] else "later"


def row(entry, carry=guess, by_hand=lambda name: ""):
    """One command without its subcommands as a line of the table."""
    name, arity, flags, _, _, _, acl, tips, specs, subcommands = entry
    facts = f'"{name}", {arity}, {quoted(flags)}, {quoted(explicit_acl(flags, acl))}'
    if subcommands:
        text = f"    container({facts}, {carry(entry)}, {name.upper()})"
    else:
        rest = f"&[{', '.join(map(spec_text, specs))}], {carry(entry)})"
        text = f"    row({facts}, {rest}" if len(facts + rest) < WIDTH - 10 else f"    row({facts},\n        {rest}"
    for addition in (by_hand(name), f".tips({quoted(tips)})" if tips else ""):
        if addition:
            text += addition if len(text.split("\n")[-1] + addition) < WIDTH else "\n        " + addition
    return text + ","


def table(name, entries, **options):
    """A static of the table with all `entries`."""
    visibility = "pub(super) " if name == "COMMANDS" else ""
    lines = [row(entry, **options) for entry in sorted(entries)]
    lines = ["#[rustfmt::skip] // A command is a line.", f"{visibility}static {name}: &[Command] = &[", *lines, "];"]
    return "\n".join(lines) + "\n"


def main():
    port, names = sys.argv[1], sys.argv[2:]
    entries = [entry for entry in ask(port, "COMMAND", "INFO", *names) if entry] if names else ask(port, "COMMAND")
    groups = {}
    for name, docs in ask(port, "COMMAND", "DOCS", *names).items():
        groups.setdefault(docs["group"], set()).add(name)
    for group, members in sorted(groups.items()):
        own = [entry for entry in entries if entry[0] in members]
        print(f"// {group}\n" + table("COMMANDS", own))
        for entry in sorted(own):
            if entry[9]:
                print(table(entry[0].upper(), entry[9]))


if __name__ == "__main__":
    main()
