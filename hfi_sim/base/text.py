"""Text for people: counted nouns, articles, and foreign text made safe to print on one line of a terminal."""

from __future__ import annotations

from html import escape


def visible(text: str) -> str:
    r"""Return a text with control and invisible characters escaped as \xNN and the like."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def xml_text(text: str) -> str:
    """Return a text for an XML or HTML document, which may have neither control characters nor lone surrogates."""
    return escape(visible(text))


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return `1 host` or `2 hosts`; `plural` is needed if it is not `singular` with an s."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def with_article(noun: str) -> str:
    """Return `a lab file` or `an EM file`."""
    return f"{'an' if noun.startswith(('a', 'e', 'i', 'o', 'EM ')) else 'a'} {noun}"


def attribute_docs(declared: type) -> dict[str, str]:
    """Return the docstrings of the members of a class by name; only the source of the class has them."""
    import ast  # late: few programs need it
    import inspect
    import textwrap
    from itertools import pairwise

    tree = ast.parse(textwrap.dedent(inspect.getsource(declared)))
    body = next(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    docs = {}
    for item, after in pairwise(body):
        target = item.targets[0] if isinstance(item, ast.Assign) else getattr(item, "target", None)
        if isinstance(target, ast.Name) and isinstance(after, ast.Expr):
            docs[target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return docs
