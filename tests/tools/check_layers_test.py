"""tools/check_layers finds what it is there to find. usage: check_layers_test.py CHECK_LAYERS"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv.pop())


class CheckLayers(unittest.TestCase):
    def check(self, path, line):
        """Exit status and output for a tree of one file with one line."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "tools").mkdir()
            shutil.copy(SCRIPT, root / "tools" / "check_layers")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(line + "\n")
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
            result = subprocess.run([root / "tools" / "check_layers"], cwd=root, text=True,
                                    capture_output=True, check=False)
            return result.returncode, result.stdout

    def assert_refused(self, path, line):
        status, output = self.check(path, line)
        self.assertEqual(status, 1, f"{path}: {line} was accepted")
        self.assertIn(f"{path}:1: ", output)

    def assert_accepted(self, path, line):
        status, output = self.check(path, line)
        self.assertEqual(status, 0, output)

    def test_folders_include_only_what_lies_below_them(self):
        self.assert_refused("cost_model/a.cpp", '#include "planner/plan.h"')
        self.assert_refused("planner/a.h", '#include "tools/command_line.h"')
        self.assert_refused("kernels/a.h", '#include "cost_model/units.h"')
        self.assert_refused("runtime/a.h", '#include "planner/search.h"')
        self.assert_accepted("runtime/a.h", '#include "planner/plan.h"')
        self.assert_accepted("planner/a.h", '#include "cost_model/units.h"')
        self.assert_accepted("tools/a.cpp", '#include "planner/search.h"')

    def test_libraries_stay_where_they_belong(self):
        self.assert_refused("cost_model/a.h", "#include <nlohmann/json.hpp>")
        self.assert_accepted("cost_model/a.cpp", "#include <nlohmann/json.hpp>")
        self.assert_refused("planner/a.cpp", "#include <boost/program_options.hpp>")
        self.assert_refused("cost_model/a.cpp", "#  include <fmt/format.h>")
        self.assert_refused("planner/a.cpp", "#include <cuda_runtime.h>")
        self.assert_accepted("kernels/cuda/a.cu", "#include <cublasLt.h>")
        self.assert_refused("runtime/a.cpp", "#include <mpi.h>")
        self.assert_refused("runtime/transport/launch.cpp", "#include <mpi.h>")
        self.assert_accepted("runtime/transport/mpi_engine.h", "#include <mpi.h>")
        self.assert_refused("runtime/a.cpp", "#include <nccl.h>")
        self.assert_refused("runtime/transport/launch.cpp", "#include <nccl.h>")
        self.assert_refused("kernels/cuda/a.cpp", "#include <nccl.h>")
        self.assert_accepted("runtime/transport/nccl_library.h", "#include <nccl.h>")
        # Of CUDA its runtime alone.
        self.assert_accepted("runtime/transport/nccl_world.cpp", "#include <cuda_runtime_api.h>")
        self.assert_refused("runtime/transport/nccl_world.cpp", "#include <cublasLt.h>")
        self.assert_refused("runtime/transport/launch.cpp", "#include <cuda_runtime.h>")
        self.assert_refused("cost_model/a.cpp", "#include <thread>")
        self.assert_accepted("cost_model/a.cpp", "#include <vector>")


if __name__ == "__main__":
    unittest.main()
