"""Suites as people write them: coroutine fixtures, fabrics that tests share, Hypothesis, unittest."""

from __future__ import annotations

from pathlib import Path

import pytest

from program import run_pytest

PREAMBLE = """
import asyncio, pytest, pytest_asyncio, unittest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from hfi_sim.fabric.topology import single_switch
from opavnic.pytest_plugin import lab_fixtures
from opavnic.scenario import *
"""
MODES = pytest.mark.parametrize(
    ("mode", "fixture"),
    [("strict", "pytest_asyncio.fixture"), ("auto", "pytest_asyncio.fixture"), ("auto", "pytest.fixture")],
)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """An outside project without any settings."""
    pytester.makeini("[pytest]\n")
    return pytester


def run(project: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    Path(project.path, "test_it.py").write_text(PREAMBLE + source)
    return run_pytest(
        project.path, "-p", "no:cacheprovider", "--fabric-pcap=never", "-W", "error", "--tb=short", *options
    )


@MODES
def test_coroutine_fixtures_set_up_and_end_on_the_fabric_of_the_test(
    project: pytest.Pytester, mode: str, fixture: str
) -> None:
    result = run(
        project,
        f"""
ENDED = []

@{fixture}
async def blue(em, hosts):
    await em.vesw("blue", members=hosts)

@{fixture}
async def background(lab, blue):
    async def forever():
        while True:
            await asyncio.sleep(1)
    task = asyncio.create_task(forever())
    yield lab.clock.time()
    task.cancel()
    await asyncio.sleep(3600)  # virtual time, here too
    ENDED.append(await lab.hosts["h1"].ping(lab.hosts["h2"]))

@pytest.mark.usefixtures("background")
async def test_coroutine(hosts):
    h1, h2 = hosts
    await asyncio.sleep(3600)
    assert await h1.ping(h2) == 1

def test_function(background, hosts, lab):
    assert ENDED == [1]
    assert lab.clock.time() == background < 1
    assert hosts["h1"].vnic().is_up
""",
        f"--asyncio-mode={mode}",
    )
    result.assert_outcomes(passed=2)


def test_left_tasks_and_lost_packets_of_fixtures_are_what_the_test_fails_for(
    project: pytest.Pytester,
) -> None:
    result = run(
        project,
        """
@pytest_asyncio.fixture
async def leaves(lab):
    asyncio.create_task(asyncio.sleep(100), name="of the fixture")

async def test_tasks(leaves):
    pass

@pytest_asyncio.fixture
async def hangs(em):
    await asyncio.Event().wait()

async def test_hangs(hangs):
    pass

@pytest_asyncio.fixture
async def hangs_at_the_end(em):
    yield
    await asyncio.Event().wait()

async def test_end(hangs_at_the_end):
    pass
""",
    )
    result.assert_outcomes(passed=2, errors=3)
    result.stdout.re_match_lines_random(
        [
            r"E .*tasks are left running: of the fixture",
            r"E +the test +test_it.py:\d+ in hangs: await asyncio.Event\(\).wait\(\)",
            r"test_it.py:\d+: in hangs_at_the_end",
        ]
    )


def test_tests_of_a_module_share_a_fabric_and_its_time(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
lab, fabric, hosts, em = lab_fixtures("module")
pytestmark = pytest.mark.topology("clos", leaves=2, spines=2)
SEEN = []

@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def blue(em, hosts):
    await em.vesw("blue", members=hosts)
    yield
    await asyncio.sleep(10)

async def test_first(blue, lab, hosts):
    SEEN.append(lab)
    await asyncio.sleep(3600)
    assert await hosts["h1"].ping(hosts["h4"]) == 1

async def test_second(blue, lab, hosts):
    assert SEEN == [lab]
    assert lab.clock.time() > 3600
    assert await hosts["h1"].ping(hosts["h4"]) == 1

def test_function(blue, lab):
    assert SEEN == [lab]

@pytest.mark.fabric_time_limit("5s")
async def test_limited(blue):
    await asyncio.sleep(6)

@pytest.mark.topology("single-switch")
async def test_other_shape(hosts):
    pass

@pytest.mark.asyncio(loop_scope="function")
async def test_other_loop(blue, hosts):
    await hosts["h1"].ping(hosts["h2"])
""",
    )
    result.assert_outcomes(passed=3, failed=2, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "E*the test has used up its 5s of virtual time*",
            "topology: the tests of this module share one fabric (lab_fixtures); give the mark to the module",
            "E*the fabric runs on another event loop than this coroutine; give test and fixtures one loop_scope*",
        ]
    )


def test_classes_share_a_fabric_each_and_a_wrong_scope_is_refused(project: pytest.Pytester) -> None:
    source = """
lab, fabric, hosts, em = lab_fixtures("class", pytest.mark.topology("single-switch", hosts=3))
SEEN = []

class TestOne:
    async def test_a(self, lab, em, hosts):
        await em.vesw("blue", members=hosts)
        SEEN.append(lab)

    async def test_b(self, lab, hosts):
        assert SEEN == [lab]
        assert await hosts["h1"].ping(hosts["h3"]) == 1

class TestTwo:
    async def test_c(self, lab, em, hosts):
        assert SEEN != [lab]
        await em.vesw("blue", members=hosts)
"""
    run(project, source).assert_outcomes(passed=3)
    wrong = run(project, 'lab, fabric, hosts, em = lab_fixtures("test")\ndef test_it(lab): pass\n')
    assert "lab_fixtures('test'): the scope is one of class, module, package, session" in wrong.stdout.str()


def test_each_example_of_hypothesis_has_a_fabric_of_its_own(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
SEEN = set()

@settings(max_examples=5, deadline=None)
@given(mtu=st.integers(1400, 1500))
async def test_coroutine(em, hosts, lab, mtu):
    assert lab.clock.time() == 0
    assert lab.em is em
    await em.vesw("blue", members=hosts, mtu=mtu)
    h1, h2 = hosts
    assert await h1.ping(h2) == 1

@settings(max_examples=5)
@given(time=st.floats(0, 10))
def test_function(lab, time):
    assert lab.clock.time() == 0
    lab.advance(time)

@settings(max_examples=20, deadline=None, print_blob=False, phases=(Phase.generate, Phase.shrink))
@given(n=st.integers(0, 100))
async def test_fails(hosts, em, n):
    await em.vesw("blue", members=hosts)
    assert n < 7

@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(0, 100))
async def test_with_a_fixture_that_examples_share(blue, hosts, n):
    assert await hosts["h1"].ping(hosts["h2"]) == 1

@pytest_asyncio.fixture
async def blue(em, hosts):
    await em.vesw("blue", members=hosts)
""",
        "-p",
        "no:randomly",
    )
    result.assert_outcomes(passed=3, failed=1)
    out = result.stdout.str()
    assert "n=7," in out
    assert "em=that of the example" in out
    assert out.count("vport-configured configured on 'blue'\n") >= 2  # the timeline of the last example


def test_unittest_makes_its_fabric_itself_and_is_told_so(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
class TestOwn(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.lab = await self.enterAsyncContext(Scenario(single_switch(2)))
        await self.lab.em.vesw("blue", members=self.lab.hosts)

    async def test_ping(self):
        h1, h2 = self.lab.hosts
        self.assertEqual(await h1.ping(h2), 1)

class TestFixture(unittest.IsolatedAsyncioTestCase):
    @pytest.fixture(autouse=True)
    def _fabric(self, hosts):
        self.hosts = hosts

    async def test_it(self):
        pass

class TestFunction(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _fabric(self, lab):
        self.lab = lab

    def test_it(self):
        self.lab.advance(1)

def test_function(em):
    pass
""",
    )
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines_random(
        [
            "unittest.IsolatedAsyncioTestCase runs its tests on an event loop of its own, which fixtures do not have; "
            "make the fabric there: self.lab = await self.enterAsyncContext(Scenario(single_switch(2))) in asyncSetUp",
            "there is no Ethernet Manager: it needs an event loop, and the test is a plain function; "
            "make it a coroutine (async def)",
        ]
    )
