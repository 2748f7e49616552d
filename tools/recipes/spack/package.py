"""Spack: a recipe for a source tree. Put this directory into a repository of yours as packages/ptdp, then
in the source tree `spack dev-build ptdp@main`; `ptdp@main~runtime` is the planner alone."""

from spack.package import *


class Ptdp(CMakePackage):
    """Plans, executes and validates the training of large transformers."""

    license("Apache-2.0")
    version("main")

    variant("runtime", default=True, description="Build what trains, too")
    variant("cuda", default=False, when="+runtime", description="Train on GPUs, with CUDA 13")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("boost@1.74: +program_options")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3.11:")
    depends_on("pugixml@1.11:")
    depends_on("tomlplusplus@3.3:")
    depends_on("yaml-cpp@0.7:")
    depends_on("zlib-api")
    with when("+runtime"):
        depends_on("mpi")
        depends_on("openblas")
        depends_on("onednn")
        depends_on("xxhash")
    depends_on("cuda@13:", when="+cuda")
    depends_on("nccl", when="+cuda")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("PTDP_TESTS", self.run_tests),
            self.define("PTDP_PLANNER_ONLY", "~runtime" in self.spec),
            self.define_from_variant("PTDP_CUDA", "cuda"),
        ]
