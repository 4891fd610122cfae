"""A HUD environment without capabilities: what an agent answers is all there is to grade.

`add`, `add_detailed`, `chat_prompt` and `penalty` are ordinary tasks. The others take their time,
raise or break a rule, each in one way: what happens to a rollout then is tested with them.
"""

import asyncio
import re

from hud import Environment
from hud.graders import EvaluationResult, SubScore

env = Environment(name="text", version="1.0.0")


def number_in(answer: object) -> float | None:
    """The first number of an answer; `exact_match` of HUD would take -5 for 5."""
    found = re.search(r"-?\d+(?:\.\d+)?", answer) if isinstance(answer, str) else None
    return float(found.group()) if found else None


@env.template(description="Add two integers and reply with just the number.")
async def add(a: int, b: int = 1):
    answer = yield f"What is {a} + {b}? Reply with just the number."
    yield 1.0 if number_in(answer) == a + b else 0.0


@env.template(description="The same sum, graded by value and by format.")
async def add_detailed(a: int, b: int = 1):
    answer = yield f"What is {a} + {b}? Reply with just the number."
    value = 1.0 if number_in(answer) == a + b else 0.0
    bare = 1.0 if isinstance(answer, str) and re.fullmatch(r"\s*-?\d+\s*", answer) else 0.0
    yield EvaluationResult(
        reward=0.8 * value + 0.2 * bare,
        content="graded by value and by format",
        info={"expected": a + b},
        subscores=[
            SubScore(name="value", value=value, weight=0.8),
            SubScore(name="format", value=bare, weight=0.2, info={"saw": answer}),
        ],
    )


@env.template(description="Several messages as prompt, an integer as answer.", returns=int)
async def chat_prompt():
    answer = yield {
        "prompt": [
            {"role": "system", "content": "Be terse."},
            {"role": "user", "content": "What is 6 * 7? Reply with just the number."},
        ],
        "note": "keys beside the prompt come along",
    }
    yield 1.0 if answer.content == 42 else 0.0


@env.template(description="A grade below 0 for anything but silence.")
async def penalty():
    answer = yield "Say nothing at all."
    spoke = 1.0 if answer else 0.0
    yield EvaluationResult(
        reward=1.0 - 1.5 * spoke,
        subscores=[
            SubScore(name="silence", value=1.0, weight=1.0),
            SubScore(name="spoke", value=spoke, weight=-1.5),
        ],
    )


@env.template(description="A verifier without an agent: its answer is the grade of another task.")
async def recheck(minimum: float = 0.5):
    actor = yield "no agent reads this"
    yield EvaluationResult(
        reward=1.0 if actor["score"] >= minimum else 0.0, info={"actor": actor, "minimum": minimum}
    )


@env.template(description="A prompt of `mib` MiB that ends with the sum to solve.")
async def big_prompt(mib: float = 1.0):
    padding = "x" * int(mib * 1024 * 1024)
    answer = yield f"{padding}\nWhat is 2 + 3? Reply with just the number."
    yield 1.0 if number_in(answer) == 5 else 0.0


@env.template(description="A grade beside which stand NaN, infinities and an integer beyond 2^53.")
async def nan_info():
    answer = yield "What is the French word for coffee? Reply with just the word."
    yield {
        "score": 1.0 if isinstance(answer, str) and "caf\u00e9" in answer.lower() else 0.0,
        "info": {
            "loss": float("nan"),
            "high": float("inf"),
            "low": float("-inf"),
            "big": 2**60,
            "saw": answer,
            "text": "NaN, Infinity, 1152921504606846976",
        },
    }


@env.template(description="Binds episode data to a capability that is not announced.")
async def wrong_binding():
    yield {"prompt": "Say anything.", "bindings": {"arm": {"slot": "a1"}}}
    yield 1.0


@env.template(description="Takes `seconds` before it has a prompt.")
async def slow_start(seconds: float = 30.0):
    await asyncio.sleep(seconds)
    yield "What is 2 + 3? Reply with just the number."
    yield 1.0


@env.template(description="Takes `seconds` to grade.")
async def slow_grade(seconds: float = 30.0):
    answer = yield "What is 2 + 3? Reply with just the number."
    await asyncio.sleep(seconds)
    yield 1.0 if number_in(answer) == 5 else 0.0


@env.template(description="Raises instead of giving a prompt.")
async def broken_start(message: str = "the set-up exploded"):
    raise RuntimeError(message)
    yield  # a template is a generator


@env.template(description="Raises instead of grading.")
async def broken_grader(message: str = "the grader exploded"):
    yield "Say anything."
    raise RuntimeError(message)


@env.template(description="Looks up a key that is not there: HUD's message is the key alone.")
async def missing_key():
    yield "Say anything."
    yield {}["solution"]


@env.template(description="Yields a string where a grade belongs.")
async def bad_grade():
    yield "Say anything."
    yield "not a number"


@env.template(description="Ends without a grade, which HUD counts as 0.")
async def no_grade():
    yield "Say anything."


@env.template(description="Says that its own infrastructure failed: not a reward of 0.")
async def is_error():
    yield "Say anything."
    yield EvaluationResult(reward=0.0, isError=True, content="the judge could not be reached")


tasks = [add(a=2, b=3), add(a=40, b=2), add_detailed(a=5, b=6)]
