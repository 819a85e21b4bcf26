"""`opavnic kernel build` and `list`, with a `make` that only pretends."""

from __future__ import annotations

import fcntl
import gzip
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from opavnic.cli.main import main
from opavnic.cli.program.kernel import app
from opavnic.kernel import build, cache
from opavnic.kernel.archive import archive
from opavnic.kernel.drivers import DRIVERS, HFI1, OPA_VNIC

MAKE = """#!/bin/sh
for word; do case $word in
O=*) objects=${word#O=};; M=*) module=${word#M=};; KCONFIG_ALLCONFIG=*) config=${word#*=};; esac; done
case "$*" in
*allnoconfig*) grep -v UNKNOWN $config > $objects/.config;;
*modules*) cd $module; for d in opa_*; do echo module > $d/$d.ko; done; for d in drivers/rdmavt drivers/hfi1; do
    [ ! -d $d ] || { cat $d/Kbuild $d/Makefile 2>/dev/null; echo module; } > $d/${d##*/}.ko; done;;
*) for n in $(seq 250); do echo "  CC      file$n.o"; done; echo kernel > $objects/linux
    for m in core/ib_uverbs ulp/ipoib/ib_ipoib; do
        mkdir -p $objects/drivers/infiniband/${m%/*}; echo module > $objects/drivers/infiniband/$m.ko; done;;
esac
"""
GCC = """#!/bin/sh
while [ "$1" != -o ]; do shift; done; echo init > "$2"
"""
MAKEFILE = "VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 192\nNAME = Curry Ramen\n"


class Ground:
    """A machine with pretended tools, a kernel tree and an empty cache."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin, self.tree, self.cache = tmp_path / "bin", tmp_path / "linux-6.1", tmp_path / "cache"
        self.bin.mkdir()
        for name in ("flex", "bison", "bc", "m4", "strip"):
            self.tool(name, "#!/bin/sh\n")
        self.tool("make", MAKE)
        self.tool("gcc", GCC)
        for name in ("sh", "seq", "nice", "tar", "xz", "gzip", "cat", "grep", "mkdir"):
            (self.bin / name).symlink_to(shutil.which(name) or "/bin/false")
        monkeypatch.setenv("PATH", str(self.bin))
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))
        monkeypatch.setattr(build, "PACKAGED", tmp_path / "usr-src")
        for driver in DRIVERS:
            (self.tree / driver.directory).mkdir(parents=True)
            (self.tree / driver.directory / "Makefile").write_text(f"# Linux's {driver.name}\n")
        (self.tree / "Makefile").write_text(MAKEFILE)

    def tool(self, name: str, script: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(script)
        path.chmod(0o755)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments])

    @property
    def kept(self) -> list[str]:
        return sorted(path.name for path in (self.cache / "opavnic" / "kernel").iterdir())


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    return Ground(tmp_path, monkeypatch)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["kernel", "build", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    return line


def test_a_build_says_how_far_it_is_and_leaves_the_kernel_alone_in_the_cache(ground: Ground) -> None:
    before = sorted(ground.tree.rglob("*"))
    done = ground.run("build", "--source", str(ground.tree))
    assert done.exit_code == 0, done.output
    assert "configuring Linux 6.1.192" in done.stderr
    assert "building Linux 6.1.192: 200 of about 1100 files" in done.stderr
    assert ground.kept == ["6.1.192", "6.1.192.log", "lock"]
    assert sorted(ground.tree.rglob("*")) == before, "the user's tree is only read"
    (kernel,) = json.loads(ground.run("list", "--json").stdout)
    assert (kernel["version"], kernel["usable"]) == ("6.1.192", True)
    assert cache.find_kernel().program.read_text() == "kernel\n"
    files = gzip.decompress(cache.find_kernel().first_files().read_bytes())
    assert b"init\n" in files
    assert b"module\n" in files
    modules = cache.find_kernel().directory / "modules"
    assert sorted(path.name for path in modules.iterdir()) == [
        "hfi1.ko",
        "ib_ipoib.ko",
        "ib_uverbs.ko",
        "opa_sim_agent.ko",
        "opa_sim_hfi.ko",
        "opa_virtual_hfi.ko",
        "rdmavt.ko",
    ]
    assert (modules / "hfi1.ko").read_text().startswith("# Linux's hfi1\n"), "built from a copy of its files"
    assert "unmodified: opa_vnic, ib_uverbs, rdmavt, hfi1, ib_ipoib" in done.stderr
    assert "drivers/user_mode.h (names of x86" in done.stderr


def test_kernels_of_different_names_are_kept_side_by_side(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ground.run("build", "--source", str(ground.tree)).exit_code == 0
    (ground.tree / HFI1.directory / "Makefile").write_text("# patched\n")
    assert ground.run("build", "--source", str(ground.tree), "--name", "patched").exit_code == 0
    assert ground.kept == ["6.1.192", "6.1.192.log", "lock", "patched", "patched.log"]
    patched = cache.find_kernel("patched")
    assert (patched.name, patched.version) == ("patched", "6.1.192")
    assert (patched.directory / "modules" / "hfi1.ko").read_text().startswith("# patched\n")
    assert cache.find_kernel().name == "6.1.192", "which has no name of its own"
    with pytest.raises(
        cache.KernelError, match=r"kasan is not built, but 6\.1\.192, patched; .* --name kasan"
    ):
        cache.find_kernel("kasan")
    for name in ("lock", "build", "a/b", "..", "x.log"):
        assert f'"{name}" is no name' in refusal(capsys, "--source", str(ground.tree), "--name", name)


def test_settings_of_the_user_hold_or_are_refused(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    config = ground.tree.parent / "my.config"
    config.write_text("# for a debugger\nCONFIG_KASAN=y\n\n# CONFIG_IPV6 is not set\nCONFIG_PACKET=n\n")
    seen = ground.tree.parent / "seen"
    ground.tool(
        "make", MAKE.replace("grep -v UNKNOWN $config", f"cat $config > {seen}; grep -v UNKNOWN $config")
    )
    done = ground.run("build", "--source", str(ground.tree), "--config", str(config), "--name", "kasan")
    assert done.exit_code == 0, done.output
    settings = seen.read_text().splitlines()
    assert {"CONFIG_KASAN=y", "# CONFIG_IPV6 is not set", "# CONFIG_PACKET is not set"} <= set(settings)
    assert not {"CONFIG_IPV6=y", "CONFIG_PACKET=y"} & set(settings), "the user's go before ours"
    config.write_text("CONFIG_UNKNOWN_OPTION=y\n")
    said = refusal(capsys, "--source", str(ground.tree), "--config", str(config))
    assert "CONFIG_UNKNOWN_OPTION=y does not hold in Linux 6.1.192 for user mode: it is not set" in said
    config.write_text("KASAN=y\n")
    assert f"{config}:1: 'KASAN=y' should be CONFIG_X=y" in refusal(
        capsys, "--source", str(ground.tree), "--config", str(config)
    )
    assert "no such file" in refusal(capsys, "--source", str(ground.tree), "--config", "/none").lower()


def test_files_for_a_debugger_are_kept_on_request(ground: Ground) -> None:
    ground.tool("strip", '#!/bin/sh\necho stripped > "$2"\n')
    assert ground.run("build", "--source", str(ground.tree), "--symbols").exit_code == 0
    directory = cache.find_kernel().directory
    assert (directory / "linux").read_text() == "stripped\n"
    assert (directory / "symbols" / "vmlinux").read_text() == "kernel\n"
    assert "module\n" in (directory / "symbols" / "hfi1.ko").read_text()


def test_a_tree_of_later_kernels_has_no_opa_vnic_but_hfi1(ground: Ground) -> None:
    shutil.rmtree(ground.tree / OPA_VNIC.directory)
    (ground.tree / "Makefile").write_text(MAKEFILE.replace("= 6", "= 7"))
    done = ground.run("build", "--source", str(ground.tree))
    assert done.exit_code == 0, done.output
    assert "Linux 7.1.192 has no opa_vnic, which is in kernels up to Linux 7.0" in done.stderr
    assert cache.find_kernel(driver=HFI1).drivers == ("ib_uverbs", "rdmavt", "hfi1", "ib_ipoib")
    assert b"opa_sim_hfi" not in gzip.decompress(
        cache.find_kernel(driver=HFI1).first_files(HFI1).read_bytes()
    )
    with pytest.raises(
        cache.KernelError, match=r"7\.1\.192 has no opa_vnic, which is in kernels up to Linux 7\.0"
    ):
        cache.find_kernel()


def test_the_log_of_a_build_can_be_followed(ground: Ground) -> None:
    log = ground.cache / "opavnic" / "kernel" / "6.1.192.log"
    wait = f"n=0; until grep -q file250 {log}; do n=$((n+1)); [ $n -lt 5000 ] || exit 3; done; echo kernel >"
    ground.tool("make", MAKE.replace("echo kernel >", wait))
    assert ground.run("build", "--source", str(ground.tree)).exit_code == 0


def test_an_archive_of_a_package_is_found_and_unpacked(ground: Ground) -> None:
    build.PACKAGED.mkdir()
    with tarfile.open(build.PACKAGED / "linux-source-6.1.tar.xz", "w:xz") as packed:
        packed.add(ground.tree, "linux-source-6.1")
    done = ground.run("build")
    assert done.exit_code == 0, done.output
    assert cache.find_kernel().source.endswith("linux-source-6.1.tar.xz")
    assert ground.kept == ["6.1.192", "6.1.192.log", "lock"]


def test_missing_programs_are_named_with_their_packages(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    (ground.bin / "flex").unlink()
    (ground.bin / "bc").unlink()
    assert refusal(capsys, "--source", str(ground.tree)).endswith(
        "a kernel cannot be built without flex, bc: apt install flex bc"
    )


def test_without_a_source_one_line_says_where_one_is_from(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "apt install linux-source" in refusal(capsys)


def test_a_source_that_is_missing_is_said_before_missing_programs(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    (ground.bin / "flex").unlink()
    source = ground.tree.parent / "it"
    assert refusal(capsys, "--source", str(source)).endswith(f"{source}: no such directory or file")


@pytest.mark.parametrize("what", ["file", "empty", "no driver", "no version"])
def test_what_is_no_kernel_source_is_refused_by_name(
    ground: Ground, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    source = ground.tree.parent / "it"
    if what == "file":
        source.write_text("no archive")
    elif what == "empty":
        source.mkdir()
    elif what == "no driver":
        shutil.copytree(ground.tree, source)
        shutil.rmtree(source / "drivers")
    elif what == "no version":
        shutil.copytree(ground.tree, source)
        (source / "Makefile").write_text("all:\n")
    assert str(source) in refusal(capsys, "--source", str(source))
    assert ground.kept == ["lock"]


def test_a_build_that_fails_says_the_first_error_and_leaves_the_kernel_that_was_there(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ground.run("build", "--source", str(ground.tree)).exit_code == 0
    bad = "echo 'net/core.c:7: error: no such thing'; echo '*** [all] Error 2'; exit 2"
    ground.tool("make", MAKE.replace("echo kernel > $objects/linux", bad))
    said = refusal(capsys, "--source", str(ground.tree))
    assert "net/core.c:7: error: no such thing; see " in said
    assert "no such thing" in Path(said.rpartition("see ")[2]).read_text()
    assert cache.find_kernel().version == "6.1.192"
    assert ground.kept == ["6.1.192", "6.1.192.log", "lock"]


def test_a_kernel_without_the_driver_in_user_mode_is_refused(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    ground.tool("make", MAKE.replace("UNKNOWN", "OPA_VNIC"))
    assert "cannot have opa_vnic in user mode" in refusal(capsys, "--source", str(ground.tree))


def test_two_builds_at_once_are_refused_and_a_killed_one_is_cleared_away(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ground.cache / "opavnic" / "kernel"
    kept.mkdir(parents=True)
    (kept / "build" / "objects").mkdir(parents=True)
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another build is under way" in refusal(capsys, "--source", str(ground.tree))
    assert ground.run("build", "--source", str(ground.tree)).exit_code == 0
    assert ground.kept == ["6.1.192", "6.1.192.log", "lock"]


def test_a_kernel_of_another_version_of_opavnic_is_not_used(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ground.run("build", "--source", str(ground.tree)).exit_code == 0
    monkeypatch.setattr(cache, "recipe", lambda: "another")
    with pytest.raises(cache.KernelError, match=r"6\.1\.192 was built by another version of opavnic"):
        cache.find_kernel()


def test_without_a_kernel_a_run_says_how_to_build_one(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors = Path(__file__).parents[3] / "vectors" / "vema-1.jsonl.gz"
    assert main(["conformance", "vema", "--kernel", str(vectors)]) != 0
    assert "none is built; run opavnic kernel build" in capsys.readouterr().err


def test_an_archive_has_its_members_at_multiples_of_four() -> None:
    packed = gzip.decompress(archive({"init": b"12345", "a": b""}, ("proc",)))
    at, names = 0, []
    while packed[at : at + 6] == b"070701":
        size, length = (int(packed[at + 6 + 8 * field : at + 14 + 8 * field], 16) for field in (6, 11))
        names.append(packed[at + 110 : at + 110 + length - 1].decode())
        at = -(-(-(-(at + 110 + length) // 4) * 4 + size) // 4) * 4
    assert (names, at) == (["proc", "init", "a", "TRAILER!!!"], len(packed))
