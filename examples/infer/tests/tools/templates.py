"""Renders chat templates with Jinja2 as `transformers` sets it up, and prints what `tests/suite/templates.json` keeps.

usage: templates.py FOLDER_OF_LLAMA_CPP > ../suite/templates.json   (needs jinja2 3.1)

Of our own templates the text is kept, of llama.cpp's `models/templates` the sha256. Null: the template refuses.
"""

import datetime
import hashlib
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).resolve().parent
CONVERSATIONS = json.loads((HERE.parent / "suite" / "conversations.json").read_text(encoding="utf-8"))
NOW = datetime.datetime(2024, 7, 6, 9, 5, 3)


class Generation(jinja2.ext.Extension):
    """`{% generation %}`: renders its content in a separate scope."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    @staticmethod
    def _inside(caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
)
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = NOW.strftime


def render(source, conversation):
    def once(tools):
        return environment.from_string(source).render(
            messages=conversation["messages"],
            add_generation_prompt=conversation["opening"],
            bos_token="<s>",
            eos_token="</s>",
            tools=tools,
            documents=None,
        )

    try:
        try:
            return once(None)
        except TypeError:
            # A template that iterates over the tools without checking whether there are any. infer passes no tools
            # for an empty list.
            return once([])
    except jinja2.exceptions.TemplateError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return None


def rendered(folder, keep):
    found = {}
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_bytes().decode("utf-8")
        print(path.name, file=sys.stderr)
        texts = {name: render(source, conversation) for name, conversation in CONVERSATIONS.items()}
        found[path.stem] = {name: None if text is None else keep(text) for name, text in texts.items()}
    return found


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


report = {
    "ours": rendered(HERE.parents[1] / "templates", lambda text: text),
    "llama.cpp": rendered(pathlib.Path(sys.argv[1]) / "models" / "templates", sha256),
}
json.dump(report, sys.stdout, indent=1, ensure_ascii=False)
print()
