"""HUD's own driver on denv sandboxes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any

from denv import Client, DenvError, NoVerdict
from denv.hud import DenvRuntime

from .support import chat_server, needs_packages, needs_server, new_label, runtime_options, sum_in

from hud import Runtime, Task, Taskset
from hud.agents import OpenAIChatAgent
from hud.agents.base import Agent
from hud.agents.types import AgentConfig, AgentStep, OpenAIChatConfig
from hud.eval.runtime import RuntimeConfig


class Sums(Agent):
    """Answers the sum in the prompt, without a model."""

    def __init__(self) -> None:
        self.config = AgentConfig(model="none")

    async def __call__(self, run: Any) -> None:
        run.trace.content = sum_in(run.prompt_text)
        run.record(AgentStep(content=run.trace.content, done=True))


def add(**fields: Any) -> Task:
    return Task(env="text", id="add", args={"a": 2, "b": 3}, **fields)


class OnDenv(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.labels = new_label()
        self.client = Client()
        self.addCleanup(self.none_left)

    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().set_debug(False)  # Which unittest turns on, and HUD is slow with.

    def runtime(self, env: str = "text_env.py", **more: Any) -> DenvRuntime:
        return DenvRuntime(**runtime_options(env, labels=self.labels, **more))

    def mine(self) -> list[str]:
        return [sandbox["id"] for sandbox in self.client.sandboxes(**self.labels)]

    def none_left(self) -> None:
        self.assertEqual(self.mine(), [])


@needs_server
@needs_packages
class Conformance(OnDenv):
    async def test_a_taskset_runs_over_published_ports(self) -> None:
        await self.taskset_runs(self.runtime(transport="port"), group=2)

    async def test_a_taskset_runs_over_attach_streams_with_nothing_published(self) -> None:
        await self.taskset_runs(self.runtime(transport="stdio"), group=1)

    async def taskset_runs(self, runtime: DenvRuntime, group: int) -> None:
        tasks = [add(), Task(env="text", id="add", args={"a": 40, "b": 2})]

        job = await Taskset("sums", tasks).run(Sums(), runtime=runtime, group=group)
        rollouts = 2 * group

        self.assertEqual([run.reward for run in job.runs], [1.0] * rollouts)
        self.assertEqual([run.trace.error for run in job.runs], [None] * rollouts)
        self.assertEqual((runtime.started, runtime.stopped), (rollouts, rollouts))
        self.assertEqual(runtime.sandboxes, {})
        self.assertEqual(len({run.runtime for run in job.runs}), rollouts)

    async def test_tools_of_an_mcp_environment_go_through_the_same_channel(self) -> None:
        task = Task(env="counter", id="count_to", args={"target": 3})
        for transport in ("port", "stdio"):
            with chat_server("bump", times=3) as url:
                config = OpenAIChatConfig(model="scripted", api_key="k", base_url=url)
                runtime = self.runtime("mcp_env.py", transport=transport)
                job = await task.run(OpenAIChatAgent(config), runtime=runtime)

            self.assertEqual((job.runs[0].reward, job.runs[0].trace.error), (1.0, None))

    async def test_a_row_is_merged_over_the_runtime_as_hud_does(self) -> None:
        runtime = self.runtime(cpus=2, memory_mb=2048, pids=100)
        row = RuntimeConfig.model_validate({"resources": {"cpu": 1}})

        async with runtime(add(runtime_config=row)) as reached:
            config = reached.config

        # Shallow: the row's resources replace the runtime's, its memory too.
        assert config is not None and config.resources is not None
        self.assertEqual(config.resources.model_dump(exclude_none=True), {"cpu": 1.0})
        self.assertEqual(config.image, "host")


@needs_server
@needs_packages
class Refusals(OnDenv):
    async def test_what_cannot_be_honoured_is_refused_by_name_before_anything_starts(self) -> None:
        runtime = self.runtime()
        for row, words in (
            ({"resources": {"gpu": {"count": 1}}}, "runtime_config.resources.gpu"),
            ({"resources": {"os": "windows", "storage_mb": 9}}, "resources.os, runtime_config.resources.storage_mb"),
            ({"compose": {"document": {"services": {"main": {"image": "x"}}}}}, "runtime_config.compose"),
        ):
            config = RuntimeConfig.model_validate(row)
            job = await add(runtime_config=config).run(Sums(), runtime=runtime)

            self.assertTrue(job.runs[0].grade.is_error)
            self.assertIn(words, job.runs[0].trace.error or "")
        self.assertEqual(runtime.started, 0)

    async def test_an_environment_that_does_not_come_up_says_why(self) -> None:
        runtime = self.runtime(env="no_such_env.py")

        job = await add().run(Sums(), runtime=runtime)

        self.assertRegex(job.runs[0].trace.error or "", r"(?s)controller_failed.*no_such_env")

    async def test_one_that_is_too_slow_is_given_up(self) -> None:
        runtime = DenvRuntime(
            "host", command=["sleep", "100"], labels=self.labels, ready_timeout=2.0
        )

        with self.assertRaises(DenvError) as refused:
            async with runtime(add()):
                pass

        self.assertEqual(refused.exception.code, "controller_failed")

    def test_options_that_make_no_sense_are_refused(self) -> None:
        for options, words in (
            ({}, "exactly one of image and version"),
            ({"image": "host", "version": "ver_1"}, "exactly one of image and version"),
            ({"image": "host", "transport": "pigeon"}, "transport"),
            ({"image": "host", "egress": "allow"}, "egress"),
            ({"version": "ver_1", "files": {"/a": "b"}}, "files"),
            ({"image": "host", "server": "http://denv.example:7300"}, "another machine"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                DenvRuntime(**options)


@needs_server
@needs_packages
class Lives(OnDenv):
    async def test_a_sandbox_goes_with_an_error_and_with_a_cancellation(self) -> None:
        runtime = self.runtime(transport="stdio")
        with self.assertRaisesRegex(RuntimeError, "mine"):
            async with runtime(add()):
                raise RuntimeError("mine")
        self.none_left()

        up = asyncio.Event()

        async def hold() -> None:
            async with runtime(add()):
                up.set()
                await asyncio.sleep(1000)

        task = asyncio.create_task(hold())
        await up.wait()
        self.assertEqual(len(self.mine()), 1)
        task.cancel()
        # Cancelled again while it deletes: it still does.
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.none_left()

        early = asyncio.create_task(hold())
        while not self.client.sandboxes(**self.labels):
            await asyncio.sleep(0.02)
        early.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await early
        self.none_left()
        self.assertEqual((runtime.started, runtime.stopped), (2, 2))

    async def test_its_lease_is_renewed_while_the_event_loop_is_busy(self) -> None:
        async with self.runtime(lease_s=5)(add()) as reached:
            time.sleep(12)  # More than the lease and the server's look at it.
            self.assertEqual(self.mine(), [reached.params["sandbox_id"]])

    async def test_run_timeout_ends_it_under_the_agent(self) -> None:
        runtime = self.runtime()
        row = RuntimeConfig.model_validate({"limits": {"run_timeout_s": 1}})

        async with runtime(add(runtime_config=row)) as reached:
            while self.mine():
                await asyncio.sleep(0.1)

        self.assertEqual(reached.params["ready_timeout"], 120.0)

    async def test_a_killed_driver_leaves_nothing_once_the_lease_is_over(self) -> None:
        drivers = [
            subprocess.Popen(
                [sys.executable, "-c", DRIVER, transport, self.labels["rolloutId"]],
                cwd=Path(__file__).resolve().parents[1],
                stdout=subprocess.PIPE,
                text=True,
            )
            for transport in ("port", "stdio")
        ]
        # One that is left would hold this run's own output open, and with it whoever waits for that to end.
        for driver in drivers:
            self.addCleanup(driver.kill)
        for driver in drivers:
            self.assertEqual(driver.stdout and driver.stdout.readline(), "up\n")
        # Longer than one lease and the server's look at it: it is the drivers that keep them.
        await asyncio.sleep(12)
        self.assertEqual(len(self.mine()), 2)

        for driver in drivers:
            os.kill(driver.pid, signal.SIGKILL)
            driver.communicate()

        killed = time.monotonic()
        while self.mine():
            await asyncio.sleep(0.2)
            self.assertLess(time.monotonic() - killed, 30)


DRIVER = """
import asyncio, sys
from tests.support import runtime_options
from tests.test_hud import add
from denv.hud import DenvRuntime

async def main():
    labels = {"rolloutId": sys.argv[2]}
    options = runtime_options("text_env.py", transport=sys.argv[1], lease_s=5, labels=labels)
    async with DenvRuntime(**options)(add()):
        print("up", flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


@needs_server
@needs_packages
class Versions(OnDenv):
    VERIFY = "test -e /submission/workspace/done && echo 1 > /verdict/reward.txt || true"

    async def test_forks_pins_and_verifiers(self) -> None:
        runtime = self.runtime(transport="stdio")
        verifier: Any = {
            "image": "host",
            "command": ["sh", "-c", self.VERIFY],
            "collect": ["/workspace/done"],
        }
        async with runtime(add()) as reached:
            sandbox = reached.params["sandbox_id"]
            with self.assertRaises(NoVerdict):
                await runtime.grade(sandbox, verifier, stop=False)
            self.client.exec(sandbox, ["touch", "/workspace/done"])

            async with runtime.fork(sandbox) as child:
                forked = child.params["sandbox_id"]
                self.assertEqual(set(runtime.sandboxes), {sandbox, forked})
                job = await add().run(Sums(), runtime=Runtime(child.url, params=child.params))
                self.assertEqual(job.runs[0].reward, 1.0)
                self.assertEqual(await runtime.grade(forked, verifier), 1.0)
            self.assertEqual(set(runtime.sandboxes), {sandbox})

            pinned = await runtime.pin(sandbox)
            reply = await runtime.verify(sandbox, verifier)
            self.assertEqual((reply["verdict"], reply["reward"]), ("reward", 1))

        again = DenvRuntime.from_version(pinned, labels=self.labels)
        async with again(add()) as reached:
            job = await add().run(Sums(), runtime=Runtime(reached.url))
            seen = self.client.exec(reached.params["sandbox_id"], ["ls", "/workspace"])
        self.assertEqual((job.runs[0].reward, seen["stdout"]), (1.0, "done\n"))

        row = RuntimeConfig(image="host")
        with self.assertRaisesRegex(ValueError, "runtime_config.image .*pinned to version"):
            async with again(add(runtime_config=row)):
                pass

    async def test_a_runtime_is_pinned_to_what_its_sandboxes_start_from(self) -> None:
        runtime = self.runtime()

        version = await runtime.pin()
        job = await add().run(Sums(), runtime=DenvRuntime.from_version(version, labels=self.labels))

        self.assertEqual(job.runs[0].reward, 1.0)
        self.assertEqual((runtime.started, runtime.stopped), (1, 1))
