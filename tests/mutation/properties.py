"""What mutmut would pass over is written so that it does not."""

import ast

__all__ = ["without_properties"]


def without_properties(source: str) -> str:
    """Return the same with every property made from a plain method.

    mutmut passes over what is decorated, and much of what is decided is a property.
    """
    lines = source.splitlines()
    for node in reversed(list(ast.walk(ast.parse(source)))):
        match node:
            case ast.FunctionDef(
                decorator_list=[ast.Name("property", lineno=decorated)], end_lineno=int(end)
            ):
                indent = " " * node.col_offset
                lines.insert(end, f"{indent}{node.name} = property(get_{node.name})")
                lines[node.lineno - 1] = lines[node.lineno - 1].replace("def ", "def get_", 1)
                del lines[decorated - 1]
    return "\n".join([*lines, ""])
