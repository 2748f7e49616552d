#!/usr/bin/env python3
"""Tests what is installed and packed.

usage: packages_test.py BUILD PLANNER_BUILD

BUILD is a build of everything: its components are installed, a program of another project is built on
its libraries, and its runtime's .deb is looked into. PLANNER_BUILD is one of the preset `planner`: its
program runs in an empty root, and its tarball and .deb are installed there and removed again. If it
is not built, or without the right to change the root, these are skipped with a line."""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
PLANNER = pathlib.Path(sys.argv[2]).resolve()
LARGEST_PLANNER = 8_000_000  # bytes
JOB = ["--gpus", "3072", "--model", "1T"]
# Of SC21 table 1, whose 1T run used these degrees.
PUBLISHED = "tp=8 pp=64 dp=6"


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, text=True, capture_output=True,
                          **options).stdout


def in_root(root, *command):
    """Runs a program in a root of its own; as root, or in a user namespace."""
    for prefix in (["chroot", root], ["unshare", "-r", "chroot", root]):
        found = subprocess.run([str(part) for part in [*prefix, *command]], text=True,
                               capture_output=True)
        if "Operation not permitted" not in found.stderr:
            return found
    raise unittest.SkipTest("may not change the root")


def files_below(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*")
                  if not path.is_dir() or path.is_symlink())


def installed_size(root):
    """Returns the KiB that files below a directory take, as dpkg-gencontrol counts: 1 for what is no
    regular file."""
    paths = [path for path in root.rglob("*") if "DEBIAN" not in path.parts]
    return sum(-(-path.stat().st_size // 1024) if path.is_file() and not path.is_symlink() else 1
               for path in paths)


class TemporaryTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ptdp_packages_"))
        self.addCleanup(shutil.rmtree, self.directory)


class Installation(TemporaryTest):
    def install(self, component):
        run("cmake", "--install", BUILD, "--prefix", self.directory, "--component", component)

    def test_planner_has_programs_man_pages_and_completions(self):
        self.install("planner")
        self.assertIn(PUBLISHED, run(self.directory / "bin/ptdp", "plan", *JOB))
        self.assertIn(PUBLISHED, run(self.directory / "bin/ptdp-plan", *JOB))
        installed = files_below(self.directory)
        for name in ("ptdp", "ptdp-plan", "ptdp-sim", "ptdp-validate", "ptdp-calibrate"):
            self.assertIn(f"share/man/man1/{name}.1.gz", installed)
            self.assertIn(f"share/bash-completion/completions/{name}", installed)
            self.assertIn(f"share/fish/vendor_completions.d/{name}.fish", installed)
        self.assertNotIn("bin/ptdp-run", installed)

    @unittest.skipUnless(shutil.which("groff"), "no groff here")
    def test_man_pages_are_roff_without_a_warning(self):
        self.install("planner")
        for page in (self.directory / "share/man/man1").iterdir():
            found = subprocess.run(["groff", "-man", "-ww", "-z"], input=gzip.decompress(page.read_bytes()),
                                   capture_output=True)
            self.assertEqual(found.stderr, b"", page)

    def test_runtime_is_found_by_the_planner_beside_it(self):
        self.install("planner")
        self.install("runtime")
        version = run(self.directory / "bin/ptdp", "run", "--version")
        self.assertTrue(version.startswith("ptdp-run "), version)

    def test_a_program_of_another_project_links_the_libraries(self):
        self.install("development")
        build = self.directory / "build"
        run("cmake", "-S", SOURCE / "tools/examples/library", "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.directory}")
        run("cmake", "--build", build)
        lines = run(build / "plan_sizes").splitlines()
        # The fewer GPUs, the longer an iteration takes, and the less it costs.
        rows = [re.fullmatch(r" *(\d+) GPUs: +([\d.]+) s, +([\d.]+) GPU-hours .*", line) for line in lines]
        self.assertEqual([int(row[1]) for row in rows], [256, 512, 1024])
        seconds = [float(row[2]) for row in rows]
        self.assertEqual(seconds, sorted(seconds, reverse=True))
        for row in rows:
            self.assertAlmostEqual(float(row[3]), float(row[1]) * float(row[2]) / 3600, delta=0.01)

    @unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "no dpkg-dev here")
    def test_debs_name_what_they_need(self):
        run("cpack", "-G", "DEB", "-B", self.directory, cwd=BUILD)
        fields = {}
        for package in self.directory.glob("*.deb"):
            name = package.name.split("_")[0]
            fields[name] = run("dpkg-deb", "--field", package)
        self.assertEqual(set(fields), {"ptdp-planner", "ptdp-runtime"})
        self.assertRegex(fields["ptdp-runtime"], r"Depends: .*ptdp-planner \(= [\d.]+\)")
        self.assertRegex(fields["ptdp-runtime"], r"Depends: .*libc6 \(>= ")
        self.assertRegex(fields["ptdp-runtime"], "Description: train ")
        self.assertNotRegex(fields["ptdp-planner"], "(?i)mpi|blas")


@unittest.skipUnless((PLANNER / "tools/ptdp").exists(), "the preset planner is not built")
class Planner(TemporaryTest):
    def pack(self, generator):
        packages = self.directory / "packages"
        run("cpack", "-G", generator, "-B", packages, cwd=PLANNER)
        [package] = [path for path in packages.iterdir() if path.suffix in (".gz", ".deb")]
        return package

    def assert_plans(self, root, program):
        found = in_root(root, program, *JOB)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn(PUBLISHED, found.stdout)
        return found.stdout

    def test_runs_alone_in_an_empty_root(self):
        shutil.copy(PLANNER / "tools/ptdp", self.directory / "ptdp-plan")
        self.assertLessEqual((self.directory / "ptdp-plan").stat().st_size, LARGEST_PLANNER)
        answer = self.assert_plans(self.directory, "/ptdp-plan")
        self.assertEqual(answer, run(BUILD / "tools/ptdp-plan", *JOB))
        validated = in_root(self.directory, "/ptdp-plan", "list", "models")
        self.assertIn("1T", validated.stdout)
        self.assertEqual(files_below(self.directory), ["ptdp-plan"])

    def test_tarball_runs_where_it_is_unpacked(self):
        root = self.directory / "root"
        root.mkdir()
        run("tar", "-xf", self.pack("TGZ"), "-C", root)
        [top] = root.iterdir()
        self.assert_plans(root, f"/{top.name}/bin/ptdp-plan")
        self.assertFalse((top / "lib").exists())

    @unittest.skipUnless(shutil.which("mandb"), "no man here")
    def test_tarball_has_man_pages_that_man_finds(self):
        run("tar", "-xf", self.pack("TGZ"), "-C", self.directory)
        [top] = [path for path in self.directory.iterdir() if path.name != "packages"]
        text = run("man", "ptdp-plan", env={**os.environ, "PATH": f"{top / 'bin'}:{os.environ['PATH']}",
                                            "MANPATH": "", "LC_ALL": "C"})
        self.assertRegex(text, r"NAME\n +ptdp-plan +- +find +how +to +train")

    def test_deb_has_what_debian_expects(self):
        package = self.pack("DEB")
        fields = run("dpkg-deb", "--field", package)
        self.assertRegex(fields, r"(?m)^Maintainer: [^<>]+ <[^@<> ]+@[^@<> ]+\.[^@<> ]+>$")
        self.assertRegex(fields, r"(?m)^Description: .{1,80}\n [^ ].{1,80}\n")
        run("dpkg-deb", "-R", package, self.directory / "root")
        size = installed_size(self.directory / "root")
        self.assertRegex(fields, f"(?m)^Installed-Size: {size}$")
        self.assertLess(size, 2 * LARGEST_PLANNER // 1024)

    def test_deb_is_installed_in_a_clean_root_and_removed_without_a_trace(self):
        package = self.pack("DEB")
        self.assertNotIn("Depends:", run("dpkg-deb", "--field", package))
        root = self.directory / "root"
        for name in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"):
            (root / name).mkdir(parents=True)
        for name in ("status", "available", "arch"):
            (root / "var/lib/dpkg" / name).touch()
        dpkg = ["dpkg", f"--root={root}", "--force-not-root", "--force-bad-path", "--log=/dev/null"]
        run(*dpkg, "--install", package)
        self.assert_plans(root, "/usr/bin/ptdp-plan")
        self.assertTrue((root / "usr/share/man/man1/ptdp-plan.1.gz").exists())
        run(*dpkg, "--purge", "ptdp-planner")
        left = [path for path in files_below(root) if not path.startswith("var/lib/dpkg/")]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
