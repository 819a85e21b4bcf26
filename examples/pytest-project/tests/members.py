"""The program of this project on every host of a scenario."""

import asyncio
import contextlib

from heartbeat import Heartbeat


@contextlib.asynccontextmanager
async def everywhere(hosts):
    """Run the program on all hosts; yield it by the name of the host."""
    programs = {}
    async with asyncio.TaskGroup() as tasks:
        for host in hosts:
            programs[host.name] = program = Heartbeat(host.mac, host.send)
            host.vnic().on_frame = program.receive  # every frame that comes, as bytes
        running = [tasks.create_task(program.run()) for program in programs.values()]
        yield programs
        for task in running:  # the plugin fails a test that leaves a task behind
            task.cancel()
