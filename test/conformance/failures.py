"""What HUD's own driver makes of tasks that go wrong: one JSON line for each, for comparison with ours.

usage: python failures.py ENV_FILE < rows.json
"""

import asyncio
import json
import sys

from hud import Task, Taskset
from hud.agents.base import Agent
from hud.agents.types import AgentConfig, AgentStep
from hud.eval.runtime import SubprocessRuntime


class Answering(Agent):
    """Says what the row has for an answer, after as long as the row wants."""

    def __init__(self, answer: str, seconds: float) -> None:
        self.config = AgentConfig(model="none")
        self.answer, self.seconds = answer, seconds

    async def __call__(self, run) -> None:
        run.trace.content = self.answer
        await asyncio.sleep(self.seconds)
        run.record(AgentStep(content=self.answer, done=True))


async def main() -> None:
    for row in json.load(sys.stdin):
        task = Task(
            env="text",
            id=row["id"],
            args=row.get("args", {}),
            agent_config=row.get("agent_config"),
        )
        agent = Answering(row["answer"], row.get("seconds", 0))
        job = await Taskset("t", [task]).run(agent, runtime=SubprocessRuntime(sys.argv[1]))
        run = job.runs[0]
        told = {"is_error": run.grade.is_error, "reward": run.reward, "error": run.trace.error}
        print(json.dumps({"name": row["name"], **told}), flush=True)


asyncio.run(main())
