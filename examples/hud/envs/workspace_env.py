"""A HUD environment with a workspace: a shell over ssh, and a record of what changed in its files.

The folder is /workspace, or what WORKSPACE_ROOT names.
"""

import os
from pathlib import Path

from hud import Environment

ROOT = Path(os.environ.get("WORKSPACE_ROOT", "/workspace"))
env = Environment(name="workspace", version="1.0.0")
env.workspace(ROOT)


@env.template(description="Write `value` into answer.txt in the workspace.")
async def write_answer(value: int = 42):
    target = ROOT / "answer.txt"
    target.unlink(missing_ok=True)
    yield f"Write {value} into answer.txt in your working directory, then say done."
    found = target.read_text().strip() if target.is_file() else None
    yield {"score": 1.0 if found == str(value) else 0.0, "info": {"found": found}}


tasks = [write_answer(value=42)]
