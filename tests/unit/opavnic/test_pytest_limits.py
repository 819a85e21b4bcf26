"""Tests that wait for what never comes, wrong markers, projects without settings: what their authors read."""

from __future__ import annotations

from pathlib import Path

import pytest

from program import run_pytest

PREAMBLE = "import asyncio, pytest, socket, sys\nfrom opavnic.scenario import *\n"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """An outside project without any settings."""
    pytester.makeini("[pytest]\n")
    return pytester


def run(project: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    Path(project.path, "test_it.py").write_text(PREAMBLE + source)
    # in a process of its own: loops, warnings and plugins of this one are not those of the project
    return run_pytest(project.path, "-p", "no:cacheprovider", "--fabric-pcap=never", *options)


def test_wait_for_what_never_comes_fails_with_who_waits_and_the_fabric(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
async def test_never(hosts, em):
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    await h1.ping(h2)
    task = asyncio.create_task(forever(), name="helper")
    await asyncio.Event().wait()

async def forever():
    await asyncio.get_running_loop().create_future()
""",
    )
    result.assert_outcomes(failed=1)
    out = result.stdout.str()
    assert "TimeLimitError: the test waits for what never comes: nothing is scheduled any more" in out
    result.stdout.re_match_lines(
        [
            r">       await asyncio.Event\(\).wait\(\)",
            r"E +the test +test_it.py:9 in test_never: await asyncio.Event\(\).wait\(\)",
            r"E +task helper +test_it.py:12 in forever: await asyncio.get_running_loop\(\).create_future\(\)",
            r"E +fabric: 2 hosts, 1 switch, 3 links",
            r"E +h1:1--sw0:1  up  active/active  -> \d+  <- \d+ packets",
            r"E +h1/blue  up  \d frames? received",
            r"E +last events:",
        ]
    )
    assert "opavnic/pytest_plugin.py" not in out
    assert "asyncio/locks.py" not in out


def test_endless_test_fails_at_the_limit_of_virtual_time(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
@pytest.mark.fabric_time_limit("20s")
async def test_endless(lab):
    lab.faults.add("link-down on h1")
    while True:
        await asyncio.sleep(1)

async def test_long(lab):
    await asyncio.sleep(3600)

@pytest.mark.fabric_time_limit(0)
async def test_without_a_limit(lab):
    await asyncio.sleep(36000)
""",
    )
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.re_match_lines(
        [
            r"E .*the test has used up its 20s of virtual time \(fabric_time_limit\)",
            r"E +the test +test_it.py:8 in test_endless: await asyncio.sleep\(1\)",
            r"E +h1:1--sw0:1 +DOWN \(fault.*\) +down/down",
        ]
    )


def test_limits_of_the_ini_file_count_where_no_marker_says_otherwise(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nfabric_time_limit = 5s\n")
    result = run(
        project,
        """
async def test_short(lab):
    await asyncio.sleep(6)

@pytest.mark.fabric_time_limit("7s")
async def test_longer(lab):
    await asyncio.sleep(6)
""",
    )
    result.assert_outcomes(failed=1, passed=1)
    assert "used up its 5s of virtual time" in result.stdout.str()


def test_wait_for_the_outside_has_real_time_and_a_limit_of_it(project: pytest.Pytester) -> None:
    """A socket that somebody answers is no stall, however much virtual time that is; one that nobody answers ends."""
    result = run(
        project,
        """
async def read(wait):
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"import time; time.sleep({wait}); print('x')", stdout=asyncio.subprocess.PIPE)
    try:
        return await program.stdout.read(1)
    finally:
        program.kill()
        await program.wait()

async def test_answered(lab):
    assert await read(0.2) == b"x"

@pytest.mark.fabric_time_limit(real="1s")
async def test_unanswered(lab):
    await read(600)
""",
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.re_match_lines([r"E .*the test has run for 1s of real time \(fabric_real_time_limit\)"])


def test_test_that_fails_at_its_limit_by_itself_keeps_its_error(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
async def test_own(lab):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await asyncio.Event().wait()
    try:
        await asyncio.Event().wait()
    finally:
        raise ValueError("mine")
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*ValueError: mine"])


WRONG = {
    'topology("clso")': 'unknown topology "clso" (nearest: "clos"; known: single-switch, fat-tree',
    'topology("clos", leaves="two")': "topology clos: leaves is 'two'; it is a whole number",
    "topology(5)": 'unknown topology "5" (known: ',
    'topology("clos", 2, 2)': "topology('clos', 2, 2): it takes one kind, and numbers by name",
    'topology("torus", dims=(3, "3"))': "topology torus: dims is (3, '3'); it is whole numbers",
    'topology("single-switch", hosts=-1)': "topology single-switch: hosts is -1; the least is 0",
    'topology("single-switch", hosts="h1")': "hosts is 'h1'; it is a whole number or a list of names",
    "topology()": "topology(): the first argument is the kind: single-switch, fat-tree, clos",
    "topology(leaves=2)": "topology(leaves=2): the first argument is the kind",
    'topology("single-switch", hosts=0)': "hosts=0): a scenario needs at least 1 host",
    "fabric_seed()": "fabric_seed(): it takes one whole number",
    'fabric_seed("7")': "fabric_seed('7'): it takes one whole number, e.g. fabric_seed(7)",
    "fabric_options(lnk=1)": 'fabric_options: unknown option "lnk" (nearest: "link"; known: routing, link',
    'fabric_options(routing="up-dwn")': 'unknown routing engine "up-dwn" (nearest: "up-down"',
    "fabric_options(link=5)": "fabric_options: link is 5; it is LinkConfig or TwoWay",
    'fabric_options(fabric_id="1")': "fabric_options: fabric_id is '1'; it is int",
    'fabric_time_limit("5 parsecs")': "'5 parsecs' is not a time such as 300ns, 2ms, 10s or 5m",
    "fabric_time_limit()": "it takes a time, real=TIME or both",
}


def test_wrong_marker_is_one_line_with_the_line_in_the_test(project: pytest.Pytester) -> None:
    source = "".join(
        f"@pytest.mark.{marker}\n@pytest.mark.asyncio\nasync def test_{number}(hosts, em):\n    pass\n"
        for number, marker in enumerate(WRONG)
    )
    result = run(project, source)
    result.assert_outcomes(errors=len(WRONG))
    lines = result.stdout.lines
    begin = next(number for number, line in enumerate(lines) if "= ERRORS =" in line)
    end = next(number for number, line in enumerate(lines) if "short test summary" in line)
    shown = lines[begin + 1 : end]
    assert len(shown) == 2 * len(WRONG), "\n".join(shown)  # a heading and one line each
    for number, message in enumerate(WRONG.values()):
        assert shown[2 * number + 1].startswith(f"test_it.py:{3 + 4 * number}: "), shown
        assert message in shown[2 * number + 1]


def test_wrong_limit_in_the_ini_file_is_a_usage_error(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nfabric_time_limit = long\n")
    result = run(project, "async def test_it(lab): pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.stderr.lines if line] == [
        f"ERROR: {project.path}/tox.ini: fabric_time_limit: 'long' is not a time such as 300ns, 2ms, 10s or 5m"
    ]


def test_outside_project_without_settings_sees_no_warning(project: pytest.Pytester) -> None:
    result = run(
        project, "async def test_it(hosts, em):\n    await em.vesw('blue', members=hosts)\n", "-W", "error"
    )
    result.assert_outcomes(passed=1)
    assert "Warning" not in result.stdout.str() + result.stderr.str()
