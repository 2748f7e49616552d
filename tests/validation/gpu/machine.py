"""The machine that tools/gpu-check runs on: its GPU, CUDA's libraries, the built programs."""

import json
import os
import pathlib
import re
import shutil
import signal
import site
import statistics
import subprocess
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[3]
EMULATED = "tests/validation/emulated"  # of the sources, and of a build
BUILDS = ("build/gpu", "build/cuda", "build/release")
NCCL = "libnccl.so.2"  # loaded by programs when they need it; may be missing
NEEDED_LIBRARIES = ("libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libnvrtc.so.13")
SMI_FIELDS = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "memory.used")

# A word of the driver's name: the shipped cluster with the GPU.
CLUSTERS = {"h200": "hgx-h200", "h100": "dgx-h100", "a100": "selene-a100", "b200": "dgx-b200"}


def find_smi(environment):
    return (shutil.which("nvidia-smi", path=environment.get("PATH", "")) or
            shutil.which("nvidia-smi", path="/usr/local/nvidia/bin:/usr/bin"))


def smi_selection(environment):
    """Flags for the first GPU that programs see; None where they are to see none."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return ["-i", "0"]
    first = visible.split(",")[0].strip()
    return ["-i", first] if re.fullmatch(r"\d+|GPU-[0-9a-f-]+", first) else None


def output_of(command, environment=None):
    """Standard output, or "" where the command cannot be run or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment,
                              check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def find_gpu(environment):
    """Name, driver, CUDA and memory of the GPU; {} where there is none."""
    smi = find_smi(environment)
    selection = smi_selection(environment)
    if smi is None or selection is None:
        return {}
    row = output_of([smi, *selection, "--query-gpu=name,driver_version,memory.total",
                     "--format=csv,noheader,nounits"]).strip()
    fields = [field.strip() for field in row.split(",")]
    if len(fields) != 3:
        return {}
    cuda = re.search(r"CUDA Version\s*:\s*([\d.]+)", output_of([smi, *selection, "-q"]))
    return {"gpu": fields[0], "driver": fields[1], "memory_MiB": int(float(fields[2])),
            "cuda": cuda.group(1) if cuda else "unknown"}


def word_of(gpu):
    """What the shipped profiles call it: "h200" for "NVIDIA H200"."""
    words = re.findall(r"[a-z0-9]+", gpu.lower())
    return next((word for word in words if word in CLUSTERS), "")


def toolkit_directories(environment):
    """Where a CUDA toolkit keeps its libraries, the likeliest first."""
    homes = [environment.get("CUDA_HOME"), environment.get("CUDA_PATH"), "/usr/local/cuda"]
    nvcc = shutil.which("nvcc", path=environment.get("PATH", ""))
    if nvcc:
        homes.append(str(pathlib.Path(nvcc).resolve().parents[1]))
    return [[pathlib.Path(home) / place for place in ("lib64", "lib", "targets/x86_64-linux/lib")]
            for home in homes if home]


def python_directories(roots=None):
    """Where the Python installation has those that PyTorch uses."""
    if roots is None:
        roots = [sysconfig.get_paths()["purelib"], *site.getsitepackages(),
                 site.getusersitepackages()]
    return [[*sorted(pathlib.Path(root).glob("nvidia/**/lib")), pathlib.Path(root) / "torch/lib"]
            for root in dict.fromkeys(roots)]


def find_libraries(environment, python_roots=None):
    """The directories of the first source with all of NEEDED_LIBRARIES, else of every source."""
    sources = []
    for source in toolkit_directories(environment) + python_directories(python_roots):
        present = [directory for directory in source if directory.is_dir()]
        if all(any((directory / name).exists() for directory in present)
               for name in NEEDED_LIBRARIES):
            return present
        sources += present
    return sources


def is_loaded_unaided(name, environment):
    """Whether programs find a library without being told where: in LD_LIBRARY_PATH, or in what
    ldconfig knows, as of a distribution's packages."""
    folders = environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    if any((pathlib.Path(folder) / name).exists() for folder in folders if folder):
        return True
    # Where users have no PATH to it.
    ldconfig = shutil.which("ldconfig", path=environment.get("PATH", "")) or "/sbin/ldconfig"
    known = output_of([ldconfig, "-p"])
    return bool(re.search(rf"^\s*{re.escape(name)} \(libc6,(x86-64|AArch64)", known, re.MULTILINE))


def find_nccl(environment, python_roots=None):
    """The directory of the first NCCL; None where programs find the system's, or none."""
    if is_loaded_unaided(NCCL, environment):
        return None
    sources = toolkit_directories(environment) + python_directories(python_roots)
    return next((directory for source in sources for directory in source
                 if (directory / NCCL).exists()), None)


def library_source(directories, environment):
    """Whose they are, without places that mean nothing elsewhere."""
    if not directories:
        is_known = all(is_loaded_unaided(name, environment) for name in NEEDED_LIBRARIES)
        return "the system's" if is_known else "none"
    of_python = [re.search(r"(site|dist)-packages", str(directory)) for directory in directories]
    return "PyTorch's" if all(of_python) else "mixed" if any(of_python) else "toolkit"


class ClockLog:
    """Clocks, power, temperature and used memory, every other second while a section runs."""

    def __init__(self, machine, path):
        self.path = path
        self.command = None
        smi = find_smi(machine.environment)
        if machine.gpu and smi:
            self.command = [smi, *smi_selection(machine.environment), "-l", "2",
                            f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits"]
        self.process = None

    def __enter__(self):
        if self.command:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "w", encoding="utf-8") as log:
                self.process = subprocess.Popen(self.command, stdout=log,
                                                stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()

    def summary(self):
        """Least, median and greatest of each field."""
        return summarize_clocks(self.path.read_text()) if self.process else {}


def summarize_clocks(text):
    columns = {field: [] for field in SMI_FIELDS}
    for line in text.splitlines():
        words = line.split(",")
        if len(words) != len(SMI_FIELDS):
            continue
        for field, word in zip(SMI_FIELDS, words):
            try:
                columns[field].append(float(word))
            except ValueError:
                pass  # "[N/A]"
    return {field: [min(column), statistics.median(column), max(column)]
            for field, column in columns.items() if column}


class Machine:
    """`rehearses`: tiny models on the host, to try the sections where there is no GPU. `emulates`:
    tiny models on GPUs that are emulated by the build's programs in EMULATED."""

    is_full = True  # long versions of the sections; a short check sets it to False

    def __init__(self, directory, rehearses=False, build=None, environment=None, emulates=False):
        self.environment = dict(os.environ if environment is None else environment)
        self.environment.setdefault("PTDP_PROFILES", str(ROOT / "profiles"))
        self.directory = directory
        self.rehearses = rehearses or emulates
        self.emulates = emulates
        self.build = build
        if emulates:
            self.environment.pop("CUDA_VISIBLE_DEVICES", None)
            self.environment["PATH"] = os.pathsep.join(
                [str(ROOT / EMULATED), self.environment.get("PATH", "")])
        self.gpu = find_gpu(self.environment) if self.on_gpu else {}
        rehearses = self.rehearses
        libraries = [] if rehearses else find_libraries(self.environment)
        self.libraries = [str(library) for library in libraries]
        self.nccl = None if rehearses else find_nccl(self.environment)

    @property
    def on_gpu(self):
        """Whether programs compute on a GPU, if only an emulated one."""
        return self.emulates or not self.rehearses

    def description(self):
        gpu = self.gpu or {"gpu": "none: rehearsed on the host"}
        return {**gpu, "revision": revision(),
                "cuda_libraries": library_source(self.libraries, self.environment)}

    def find_program(self, name):
        """Path of a built program, or None."""
        builds = [ROOT / build for build in BUILDS] if self.build is None else [self.build]
        places = [ROOT / "bin"]
        if self.emulates:
            places = [build / EMULATED for build in builds]
        for build in builds:
            places += [build / folder for folder in ("tools", "tests/kernels/cuda",
                                                     "tests/runtime/cuda", "tests/benchmarks",
                                                     "tests/runtime/emulated_nccl")]
        return next((place / name for place in places if (place / name).is_file()), None)

    def library_folders(self):
        """Where programs look first. NCCL last: its folder may hold other versions of the rest."""
        packed = [ROOT / "lib"] if (ROOT / "lib").is_dir() else []
        nccl = [self.nccl] if self.nccl else []
        return [pathlib.Path(folder) for folder in (*packed, *self.libraries, *nccl)]

    def program_environment(self):
        """For our programs only: PyTorch brings its own libraries."""
        environment = dict(self.environment)
        paths = [*map(str, self.library_folders()), environment.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(path for path in paths if path)
        return environment

    def measured_cluster(self):
        return self.directory / "cluster.json"

    def runs(self):
        """The folder of the reports that ptdp-validate and ptdp-calibrate read."""
        return self.directory / "runs"

    def planned_from(self):
        """What cluster_flags() name."""
        return "profile" if self.measured_cluster().exists() else \
            "data sheet" if self.on_gpu else "shipped host"

    def cluster_flags(self):
        """Of ptdp-plan: this machine as section `profile` measured it, else the data sheet's."""
        if self.measured_cluster().exists():
            return ["--cluster", self.measured_cluster()]
        if not self.on_gpu:
            return ["--cluster", "host"]
        name = CLUSTERS.get(word_of(self.gpu.get("gpu", "")), "hgx-h200")
        return ["--cluster", name, "--stack", "ptdp-cuda"]

    def peak_flops(self):
        """Of the data sheet, per second: bf16 on a GPU, f32 in a rehearsal."""
        name = word_of(self.gpu["gpu"]) if self.on_gpu else "cpu"
        key = "peak_bf16_TFLOPs" if self.on_gpu else "peak_fp32_TFLOPs"
        folder = pathlib.Path(self.environment["PTDP_PROFILES"]) / "gpus"
        for path in sorted(folder.glob(f"{name}-*.json")) if name else []:
            return 1e12 * json.loads(path.read_text())[key]
        raise ValueError(f"no profile in {folder} has the peak of {self.gpu.get('gpu')}")

    def device_flags(self):
        """Of ptdp-run."""
        return ["--device", "cuda"] if self.on_gpu else []


def revision():
    """The commit that was packed, or that of the checkout."""
    packed = ROOT / "REVISION"
    if packed.exists():
        return packed.read_text().strip()
    return output_of(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]).strip()
