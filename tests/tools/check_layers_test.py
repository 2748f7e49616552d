"""tools/check_layers finds what it is there to find. usage: check_layers_test.py CHECK_LAYERS"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv.pop())


class CheckLayers(unittest.TestCase):
    def check_files(self, files):
        """Exit status and output for a tree of these files."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "tools").mkdir()
            shutil.copy(SCRIPT, root / "tools" / "check_layers")
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
            result = subprocess.run([root / "tools" / "check_layers"], cwd=root, text=True,
                                    capture_output=True, check=False)
            return result.returncode, result.stdout

    def check(self, path, line):
        """Exit status and output for a tree of one file with one line."""
        return self.check_files({path: line + "\n"})

    def assert_refused(self, path, line):
        status, output = self.check(path, line)
        self.assertEqual(status, 1, f"{path}: {line} was accepted")
        self.assertIn(f"{path}:1: ", output)

    def assert_accepted(self, path, line):
        status, output = self.check(path, line)
        self.assertEqual(status, 0, output)

    def test_rooms_include_only_what_lies_below_them(self):
        self.assert_refused("cost_model/a.cpp", '#include "planner/plan/plan.h"')
        self.assert_refused("planner/a.h", '#include "tools/shared/command_line.h"')
        self.assert_refused("kernels/a.h", '#include "cost_model/units.h"')
        self.assert_refused("runtime/a.h", '#include "planner/plan/plan.h"')
        self.assert_refused("tools/a.cpp", '#include "tests/support/commands.h"')
        self.assert_refused("cost_model/layer/a.h", '#include "cost_model/pipeline_rank/rank_costs.h"')
        self.assert_refused("cost_model/a.h", '#include "cost_model/text/files.h"')
        self.assert_refused("runtime/model/layers/a.h", '#include "runtime/model/a.h"')
        self.assert_refused("planner/search/a.h", '#include "planner/nowhere/b.h"')
        self.assert_accepted("planner/a.h", '#include "cost_model/units.h"')
        self.assert_accepted("tools/a.cpp", '#include "planner/search/search.h"')
        self.assert_accepted("cost_model/pipeline_rank/a.h", '#include "cost_model/layer/pass_time.h"')
        self.assert_accepted("cost_model/pipeline_rank/a.h", '#include "cost_model/pipeline_rank/b.h"')
        self.assert_accepted("tests/a.cpp", '#include "tools/run/run_plan.h"')

    def test_every_file_is_in_a_room(self):
        status, output = self.check("cost_model/attic/a.h", "")
        self.assertEqual(status, 1)
        self.assertIn("cost_model/attic/a.h: expected in a room", output)

    def test_rooms_are_small(self):
        def units(count):
            return {f"planner/search/unit{i}.{kind}": "" for i in range(count)
                    for kind in ("h", "cpp")}

        self.assertEqual(self.check_files(units(18))[0], 0)
        status, output = self.check_files(units(19))
        self.assertEqual(status, 1)
        self.assertIn("planner/search/: 19 units, expected at most 18", output)
        readme = {"planner/search/a.h": "", "planner/search/README.md": "line\n" * 61}
        self.assertIn("planner/search/README.md: 61 lines", self.check_files(readme)[1])

    def test_a_name_is_one_type(self):
        first = "namespace ptdp {\nstruct Fit {\n};\n}\n"
        status, output = self.check_files({"planner/a.h": first, "planner/search/b.h":
                                           "namespace ptdp {\nclass Fit final : public Base {\n};\n}"})
        self.assertEqual(status, 1)
        self.assertIn("planner/search/b.h: ptdp::Fit is declared in planner/a.h, too", output)
        for other in ("namespace ptdp {\nstruct Fit;\n}", "namespace ptdp::cuda {\nstruct Fit {\n};\n}"):
            status, output = self.check_files({"planner/a.h": first, "planner/search/b.h": other})
            self.assertEqual(status, 0, output)

    def test_libraries_stay_where_they_belong(self):
        self.assert_refused("cost_model/a.h", "#include <nlohmann/json.hpp>")
        self.assert_accepted("cost_model/a.cpp", "#include <nlohmann/json.hpp>")
        self.assert_refused("planner/a.cpp", "#include <boost/program_options.hpp>")
        self.assert_refused("cost_model/a.cpp", "#  include <fmt/format.h>")
        self.assert_refused("planner/a.cpp", "#include <cuda_runtime.h>")
        self.assert_accepted("kernels/cuda/a.cu", "#include <cublasLt.h>")
        self.assert_refused("runtime/a.cpp", "#include <mpi.h>")
        self.assert_refused("runtime/launch/launch.cpp", "#include <mpi.h>")
        self.assert_accepted("runtime/transport/processes/mpi_engine.h", "#include <mpi.h>")
        self.assert_refused("runtime/a.cpp", "#include <nccl.h>")
        self.assert_refused("runtime/launch/launch.cpp", "#include <nccl.h>")
        self.assert_refused("kernels/cuda/a.cpp", "#include <nccl.h>")
        self.assert_accepted("runtime/transport/nccl/nccl_library.h", "#include <nccl.h>")
        # Of CUDA its runtime alone.
        self.assert_accepted("runtime/transport/nccl/nccl_world.cpp", "#include <cuda_runtime_api.h>")
        self.assert_refused("runtime/transport/nccl/nccl_world.cpp", "#include <cublasLt.h>")
        self.assert_refused("runtime/launch/launch.cpp", "#include <cuda_runtime.h>")
        self.assert_refused("cost_model/a.cpp", "#include <thread>")
        self.assert_accepted("cost_model/a.cpp", "#include <vector>")


if __name__ == "__main__":
    unittest.main()
