#!/usr/bin/env python3
"""tools/probe/probe.py on CPU, and its calls to a GPU on one that is made up here.

usage: probe_test.py PROBE [unittest's arguments]

Runs itself by /usr/bin/python3 where this interpreter has no PyTorch. Exit status 77: that one has
none either."""

import ast
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

SKIPPED = 77
SYSTEM_PYTHON = "/usr/bin/python3"

if importlib.util.find_spec("torch") is None:
    has_torch = [SYSTEM_PYTHON, "-c", "import torch"]
    if (os.path.exists(SYSTEM_PYTHON) and not os.path.samefile(SYSTEM_PYTHON, sys.executable)
            and subprocess.run(has_torch, stderr=subprocess.DEVNULL, check=False).returncode == 0):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    print(f"probe_test.py: skipped: no PyTorch in {sys.executable} and {SYSTEM_PYTHON}")
    sys.exit(SKIPPED)

import torch  # noqa: E402
import torch.utils._python_dispatch  # noqa: E402

SCRIPT = pathlib.Path(sys.argv.pop(1)).resolve()
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
sys.dont_write_bytecode = True
sys.path.insert(0, str(SCRIPT.parent))
import probe as tool  # noqa: E402

torch.set_num_threads(1)

LAYER = {"hidden_size": 64, "num_attention_heads": 4, "num_query_groups": 2, "kv_channels": 16,
         "ffn_hidden_size": 96, "gated_linear_unit": True, "normalization": "rms-norm",
         "activation_func": "silu", "add_bias_linear": False, "rope": True, "seq_length": 32,
         "micro_batch_size": 2, "tp": 1}
GPT = {**LAYER, "num_query_groups": 4, "gated_linear_unit": False, "normalization": "layer-norm",
       "activation_func": "gelu", "add_bias_linear": True, "rope": False}


def products(*sizes, operation="forward-product"):
    return [{"operation": operation, "m": m, "n": n, "k": k} for m, n, k in sizes]


def work_list(**lists):
    return {"schema": "ptdp.probe-work/1", "precision": "fp32", **lists}


WHOLE = work_list(
    products=[*products((32, 32, 32), (256, 256, 256), (256, 256, 256)),
              *products((16, 48, 64), (512, 512, 512), operation="weight-gradient-product"),
              *products((16, 48, 64), operation="input-gradient-product")],
    attention=[{"heads": 2, "seq_length": s, "head_size": 16} for s in (16, 64)],
    element_wise=[{"operation": operation, "rows": rows, "width": 32}
                  for operation in tool.ELEMENT_WISE for rows in (4, 64)],
    layers=[LAYER, {**GPT, "tp": 2}],
    collectives=[{"operation": "all-reduce", "bytes": [1024, 65536]}])


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.output = self.directory / "probe.json"
        torch.set_grad_enabled(False)
        torch.manual_seed(1)

    def command(self, work, *flags, launcher=()):
        path = self.directory / "work.json"
        path.write_text(work if isinstance(work, str) else json.dumps(work))
        return [sys.executable, *launcher, str(SCRIPT), "--work", str(path), "-o",
                str(self.output), "--device", "cpu", *flags]

    def run_probe(self, work, *flags, launcher=()):
        return subprocess.run(self.command(work, *flags, launcher=launcher), env=ENVIRONMENT,
                              cwd=self.directory, capture_output=True, text=True, timeout=120,
                              check=False)

    def answer(self):
        return json.loads(self.output.read_text())

    def check_is_read(self):
        """ptdp-plan makes a cluster of what was written; without PTDP_PLAN nothing is checked."""
        plan = os.environ.get("PTDP_PLAN")
        if plan is None:
            return
        cluster = self.directory / "mine.json"
        result = subprocess.run([plan, "new-cluster", "--from", "host", "--probe",
                                 str(self.output), "-o", str(cluster)], capture_output=True,
                                text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        gpu = json.loads(cluster.read_text())["gpu"]
        answer = self.answer()
        measured = {table["operation"] for table in gpu.get("measured_operations", [])}
        products = {table["operation"] for table in answer["measured_operations"]
                    if table["operation"].endswith("-product")}
        self.assertLessEqual(products, measured)
        self.assertEqual("layer_factors" in gpu, bool(answer["layers"]))

    def probe(self, precision="fp32", **members):
        probe = tool.Probe("cpu", precision, None)
        vars(probe).update(members)
        return probe


class Answers(Case):
    def test_form(self):
        result = self.run_probe(WHOLE)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = self.answer()
        self.assertEqual(list(answer), [
            "schema", "source", "device", "torch", "precision", "measured_operations",
            "kernel_latency_us", "host_time_per_kernel_us", "memory_bandwidth_GBps",
            "matmul_sustained", "layers", "collectives", "skipped", "warnings"])
        self.assertEqual((answer["schema"], answer["precision"]), ("ptdp.probe/1", "fp32"))
        self.check_is_read()
        device = answer["device"]
        self.assertEqual(list(device), ["name", "memory_GiB", "num_multiprocessors",
                                        "compute_capability", "power_limit_W", "backend"])
        self.assertEqual((device["backend"], device["power_limit_W"]), ("cpu", None))
        self.assertRegex(answer["source"], r"^measured by ptdp's probe on .+, torch \S+, 20\d\d-")
        self.check_tables(answer["measured_operations"])
        self.assertIsNone(answer["host_time_per_kernel_us"])
        self.assertTrue(0.1 < answer["matmul_sustained"] < 10, answer["matmul_sustained"])
        self.assertTrue(0.05 < answer["kernel_latency_us"] < 1000, answer["kernel_latency_us"])
        self.assertTrue(0.1 < answer["memory_bandwidth_GBps"] < 5000)
        for layer, given in zip(answer["layers"], WHOLE["layers"]):
            times = {key: layer.pop(key) for key in ("forward_us", "backward_us",
                                                     "peak_memory_bytes", "precision")}
            self.assertEqual(layer, given)
            self.assertGreater(min(times["forward_us"], times["backward_us"]), 10)
            self.assertEqual((times["peak_memory_bytes"], times["precision"]), (None, "fp32"))
        self.assertEqual(answer["collectives"], [])
        skipped = "\n".join(answer["skipped"])
        for text in ("collectives: several ranks", "input-gradient-product: left out, for 1 sizes"):
            self.assertIn(text, skipped)
        self.assertEqual(len(answer["skipped"]), 2)
        if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
            self.assertIn("unfused attention", "\n".join(answer["warnings"]))

    def check_tables(self, tables):
        operations = [table["operation"] for table in tables]
        self.assertEqual(operations, ["forward-product", "weight-gradient-product", "attention",
                                      "attention-backward", *tool.ELEMENT_WISE])
        for table in tables:
            sizes = (["m", "n", "k"] if "product" in table["operation"] else
                     ["heads", "seq_length", "head_size"] if "attention" in table["operation"] else
                     ["rows", "width"])
            self.assertEqual(list(table), ["operation", "precision", *sizes, "time_us"])
            self.assertEqual({len(table[key]) for key in [*sizes, "time_us"]}, {2}, table)
            self.assertGreater(min(table["time_us"]), 0.1)
        self.assertEqual(tables[0]["m"], [32, 256])  # the order of the list, what is twice once

    def test_own_work_list(self):
        text = SCRIPT.read_text()
        self.assertEqual(text.count("\nWORK = None\n"), 1)
        work = json.dumps(work_list(products=products((8, 8, 8), (16, 8, 8))))
        copy = self.directory / "own_probe.py"
        copy.write_text(text.replace("\nWORK = None\n", f"\nWORK = r'''{work}'''\n"))
        subprocess.run([sys.executable, str(copy), "--only", "products", "--device", "cpu"],
                       env=ENVIRONMENT, cwd=self.directory, check=True, capture_output=True)
        self.assertEqual(self.answer()["measured_operations"][0]["m"], [8, 16])

    def test_time_that_is_over_is_said(self):
        """Of 6 sizes the largest 4 are measured, then the time is over."""
        work = work_list(products=products(*((n, 64, 64) for n in (8, 16, 48, 24, 40, 32))))
        probe = self.probe()
        is_over = mock.Mock(side_effect=[False] * 4 + [True] * 2)
        with mock.patch.multiple(probe, is_over=is_over, time=lambda make, what: 5.0):
            tool.measure_entries(probe, "products", work["products"])
        answer = tool.answer(probe, {"attention": [], "element_wise": [], **work})
        self.assertEqual(answer["measured_operations"][0]["m"], [48, 24, 40, 32])
        self.assertEqual(answer["skipped"], [
            f"forward-product m {m}, n 64, k 64: the time was over (--seconds)" for m in (16, 8)])

    def test_shards_are_smaller_than_layers(self):
        self.assertGreater(tool.size_of(LAYER), tool.size_of({**LAYER, "tp": 2}))
        self.assertGreater(tool.size_of({**LAYER, "hidden_size": 65}), tool.size_of(LAYER))

    def test_little_time(self):
        work = work_list(products=products((8, 64, 64), (16, 64, 64)))
        result = self.run_probe(work, "--seconds", "1e-9")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = self.answer()
        self.assertGreater(answer["memory_bandwidth_GBps"], 0)
        self.assertIsNone(answer["matmul_sustained"])
        self.assertEqual(answer["measured_operations"], [])
        skipped = "\n".join(answer["skipped"])
        self.assertIn("matmul_sustained: too little time (--seconds)", skipped)
        self.assertEqual(skipped.count("the time was over (--seconds)"), 2)

    def test_signals_keep_what_was_measured(self):
        work = work_list(products=products((8, 8, 8), (16, 8, 8)),
                         attention=[{"heads": 4, "seq_length": 512 + n, "head_size": 64}
                                    for n in range(300)])
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number), subprocess.Popen(
                    self.command(work, "--only", "products,attention"), env=ENVIRONMENT,
                    stderr=subprocess.PIPE, text=True) as process:
                for line in process.stderr:
                    if line == "probe.py: attention\n":
                        break
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=30), status)
                answer = self.answer()
                self.assertEqual(answer["measured_operations"][0]["operation"], "forward-product")
                self.assertIn("attention: not complete: the probe was stopped", answer["skipped"])
                self.assertEqual(list(self.directory.glob(".probe*")), [])

    def test_what_fails_is_skipped(self):
        work = work_list(products=products((8, 8, 8), (16, 8, 8), (10**9, 10**6, 10**6)))
        result = self.run_probe(work, "--only", "products")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.answer()["measured_operations"][0]["m"], [8, 16])
        self.assertIn("k 1000000: out of memory", "\n".join(self.answer()["skipped"]))


class CountedTime(torch.utils._python_dispatch.TorchDispatchMode):
    """A clock that only matrix products move, by a nanosecond for each multiply-accumulate."""

    def __init__(self):
        super().__init__()
        self.now_s, self.delays_s = 0.0, iter(())

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function._schema.name in ("aten::mm", "aten::addmm"):
            left, right = args[-2:]
            self.now_s += 1e-9 * left.numel() * right.shape[1] + next(self.delays_s, 0.0)
        return function(*args, **(kwargs or {}))

    def __enter__(self):
        self.patch = mock.patch.object(time, "perf_counter", lambda: self.now_s)
        self.patch.start()
        return super().__enter__()

    def __exit__(self, *error):
        self.patch.stop()
        return super().__exit__(*error)


class Times(Case):
    def test_a_product_takes_what_the_clock_counts(self):
        for m, n, k in (64, 48, 32), (512, 256, 128):
            entry = products((m, n, k))[0]
            with CountedTime():
                result = tool.measure_product(self.probe(), entry)
            self.assertAlmostEqual(result["forward-product"], 1e-3 * m * n * k)

    def test_a_few_slow_calls_change_nothing(self):
        """A second lost in three calls spoils two of seven blocks."""
        entry = products((64, 48, 32))[0]
        with CountedTime() as clock:
            clock.delays_s = (float(call in (200, 450, 455)) for call in range(10**6))
            result = tool.measure_product(self.probe(), entry)
        self.assertAlmostEqual(result["forward-product"], 1e-3 * 64 * 48 * 32)

    def test_a_layer_takes_what_its_products_take(self):
        """The backward pass has two products for each of the forward pass."""
        entry = {**LAYER, "hidden_size": 256, "ffn_hidden_size": 1024, "kv_channels": 64,
                 "micro_batch_size": 8}
        tokens = 8 * 32
        weights = 256 * (4 + 2 * 2) * 64 + 4 * 64 * 256 + 256 * 2 * 1024 + 1024 * 256
        with CountedTime():
            layer = tool.measure_layer(self.probe(), entry)
        self.assertEqual(layer["forward_us"], round(1e-3 * tokens * weights, 3))
        self.assertEqual(layer["backward_us"], round(2e-3 * tokens * weights, 3))


class Collectives(Case):
    OPERATIONS = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-receive"]

    def test_two_ranks(self):
        # Far enough apart that times of a busy machine do not contradict one another: such are left
        # out where they are read.
        work = work_list(products=products((8, 8, 8), (512, 512, 512)), collectives=[
            {"operation": operation, "bytes": [65536, 1030]} for operation in self.OPERATIONS])
        # Debian's PyTorch 1.13 with Python 3.11 starts no ranks without --redirects.
        result = self.run_probe(
            work, "--only", "collectives,products", launcher=[
                "-m", "torch.distributed.run", "--nproc_per_node", "2", "--redirects", "1", "--tee",
                "1", "--rdzv_backend", "c10d",
                "--rdzv_endpoint", "localhost:0", "--log_dir", str(self.directory)])
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = self.answer()
        curves = {curve["operation"]: curve for curve in answer["collectives"]}
        for operation in self.OPERATIONS:
            if operation not in curves:  # of gloo in PyTorch 1.13
                self.assertEqual(operation, "reduce-scatter")
                self.assertIn("reduce-scatter of 2 ranks, 1030 bytes: ProcessGroup",
                              "\n".join(answer["skipped"]))
                continue
            curve = curves[operation]
            self.assertEqual((curve["ranks"], curve["nodes"]), (2, 1))
            # In whole numbers of 4 bytes, for each rank as many where they share the buffer.
            least = 1028 if operation in ("all-reduce", "send-receive") else 1024
            self.assertEqual([point["bytes"] for point in curve["points"]], [least, 65536])
            self.assertTrue(all(1 < point["time_us"] < 1e6 for point in curve["points"]))
        self.assertEqual(answer["measured_operations"][0]["m"], [8, 512])
        self.check_is_read()

    def test_buffers(self):
        """What nccl-tests counts: the whole buffer, of which each rank has its part."""
        for operation in self.OPERATIONS:
            called = {}
            with mock.patch.multiple(
                    tool.dist, all_reduce=lambda x, group: called.update(all=x),
                    all_gather=lambda xs, x, group: called.update(all=xs[0], parts=len(xs), part=x),
                    reduce_scatter_tensor=lambda y, x, group: called.update(all=x, part=y),
                    all_to_all_single=lambda y, x, group: called.update(all=x),
                    P2POp=lambda *given: given, get_rank=lambda: 1,
                    batch_isend_irecv=lambda ops: called.update(ops=ops) or []):
                call, size = tool.collective(self.probe(), operation, 4096, 4, "group", 2)
                call()
            self.assertEqual(size, 4096)
            if operation == "send-receive":
                self.assertEqual([given[2] for given in called["ops"]], [3, 3])
                self.assertEqual(called["ops"][0][1].numel(), 1024)
            elif operation == "all-gather":
                self.assertEqual((called["all"].numel(), called["parts"]), (256, 4))
            else:
                self.assertEqual(called["all"].numel(), 1024)
            if "part" in called:
                self.assertEqual(called["part"].numel(), 256)


class Operations(Case):
    def test_products(self):
        probe = self.probe()
        call, (a, b, c) = tool.product(probe, "forward-product", 3, 4, 5)
        call()
        torch.testing.assert_close(c, torch.einsum("mk,nk->mn", a, b))
        call, (a, b, c) = tool.product(probe, "input-gradient-product", 3, 4, 5)
        call()
        torch.testing.assert_close(c, torch.einsum("mk,kn->mn", a, b))
        call, (a, b, c) = tool.product(probe, "weight-gradient-product", 3, 4, 5)
        before = c.clone()
        call()
        torch.testing.assert_close(c, before + torch.einsum("km,kn->mn", a, b))

    def test_sums_of_16_bit_products(self):
        """A host's PyTorch has no product that adds 16-bit factors to fp32: that is said."""
        probe = self.probe("bf16")
        probe.prepare()
        self.assertEqual(probe.sum_dtype, torch.bfloat16)
        self.assertIn("weight-gradient-product: sums are bf16 here, not fp32", probe.warnings)

        def addmm(c, a, b, out_dtype, out):  # of a GPU, since PyTorch 2.8
            return out.copy_(c + a.to(out_dtype) @ b.to(out_dtype))

        with mock.patch.object(torch, "addmm", addmm):
            probe = self.probe("bf16")
            probe.prepare()
            call, (a, b, c) = tool.product(probe, "weight-gradient-product", 3, 4, 5)
            before = c.clone()
            call()
        self.assertEqual((c.dtype, probe.warnings), (torch.float32, []))
        torch.testing.assert_close(c, before + a.float().t() @ b.float())

    def test_attention(self):
        """Of grouped heads, by sums over the tokens that one may attend to."""
        q, k, v = torch.randn(1, 4, 6, 8), torch.randn(1, 2, 6, 8), torch.randn(1, 2, 6, 8)
        expected = torch.empty_like(q)
        for head in range(4):
            for t in range(6):
                scores = (k[0, head // 2, :t + 1] @ q[0, head, t]) / 8**0.5
                weights = scores.exp() / scores.exp().sum()
                expected[0, head, t] = weights @ v[0, head // 2, :t + 1]
        for attention in (tool.unfused_attention, tool.choose_attention(self.probe(), q, k, v)):
            torch.testing.assert_close(attention(q, k, v), expected)

    def test_element_wise(self):
        x, gain = torch.randn(5, 8), torch.randn(8)
        norms = (x.double() ** 2).mean(-1, keepdim=True).add(1e-5).sqrt()
        torch.testing.assert_close(tool.rms_norm(x, gain), (x / norms * gain).float())
        angle = torch.rand(4).repeat(2)
        turned = tool.rotate(x, angle.cos(), angle.sin())
        by_complex = torch.complex(x[:, :4], x[:, 4:]) * torch.polar(torch.ones(4), angle[:4])
        torch.testing.assert_close(turned, torch.cat((by_complex.real, by_complex.imag), -1))
        call, (logits, *_) = tool.ELEMENT_WISE["cross-entropy-backward"](torch.randn, 5, 8)
        gradient = call()[0]
        torch.testing.assert_close(gradient.sum(-1), torch.zeros(5))
        self.assertEqual((gradient < 0).sum().item(), 5)  # probability - 1, of the target alone

    def test_optimizer(self):
        call, (weight, gradient, *_, copy) = tool.adamw(self.probe("bf16", dtype=torch.bfloat16), 9)
        before, sign = weight.clone(), gradient.sign()
        call()
        # Adam's first step is the learning rate, 1e-3, against the sign; it decays by 1e-5.
        torch.testing.assert_close(weight, before * (1 - 1e-5) - 1e-3 * sign, atol=1e-6, rtol=1e-4)
        self.assertEqual(gradient.abs().sum().item(), 0)
        torch.testing.assert_close(copy, weight.bfloat16())

    def test_layer_is_pytorchs_own(self):
        """GPT's layer, against torch.nn.TransformerEncoderLayer."""
        layer = tool.Layer(self.probe(), GPT)
        own = torch.nn.TransformerEncoderLayer(64, 4, 96, 0.0, "gelu", batch_first=True,
                                               norm_first=True)
        with torch.no_grad():
            for ours, theirs in ((layer.qkv.weight, own.self_attn.in_proj_weight),
                                 (layer.qkv.bias, own.self_attn.in_proj_bias),
                                 (layer.projection.weight, own.self_attn.out_proj.weight),
                                 (layer.projection.bias, own.self_attn.out_proj.bias),
                                 (layer.up.weight, own.linear1.weight),
                                 (layer.up.bias, own.linear1.bias),
                                 (layer.down.weight, own.linear2.weight),
                                 (layer.down.bias, own.linear2.bias),
                                 (layer.norms[0], own.norm1.weight),
                                 (layer.norms[2], own.norm1.bias),
                                 (layer.norms[1], own.norm2.weight),
                                 (layer.norms[3], own.norm2.bias)):
                theirs.copy_(ours)
        x = torch.randn(2, 32, 64)
        mask = torch.full((32, 32), -torch.inf).triu(1)
        torch.testing.assert_close(layer(x), own(x, mask), atol=2e-5, rtol=1e-4)

    def test_layer_parameters(self):
        """Of Llama's kind, by hand: norms, queries with 2 groups of keys and values, MLP."""
        whole = 2 * 64 + 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 96
        shard = 2 * 64 + 64 * (16 + 2 * 16) + 16 * 64 + 3 * 64 * 24  # tp 4: a group at least
        for tp, expected in ((1, whole), (4, shard)):
            layer = tool.Layer(self.probe(), {**LAYER, "tp": tp})
            self.assertEqual(sum(x.numel() for x in layer.parameters()), expected)

    def test_operands_outgrow_caches(self):
        made = []
        probe = self.probe()
        probe.copies(lambda: made.append(1) or (len, [torch.empty(2**20, dtype=torch.int8)]))
        self.assertEqual(len(made), 64)  # MiB: all of ROTATED_BYTES
        made.clear()
        probe.copies(lambda: made.append(1) or (len, [torch.empty(2**27, dtype=torch.int8)]))
        self.assertEqual(len(made), 1)


class Refusals(Case):
    def refused(self, work, expected):
        path = self.directory / "work.json"
        path.write_text(work if isinstance(work, str) else json.dumps(work))
        with self.assertRaises(tool.Refused) as caught:
            tool.read_work(str(path))
        self.assertEqual(caught.exception.status, 2)
        self.assertIn(f"work.json: {expected}", str(caught.exception))

    def test_work_lists(self):
        good = products(*[(8, 8, 8)] * 3)[0]
        self.refused(work_list(products=[good] * 3 + [{**good, "m": "x"}]),
                     'products[3].m: expected a whole number from 1, got "x"')
        for wrong in (0, -1, 1.5, True, None):
            self.refused(work_list(products=[{**good, "k": wrong}]),
                         "products[0].k: expected a whole number from 1, got ")
        self.refused(work_list(products=[{**good, "n": 10**16}]), "products[0].n: expected at most")
        self.refused(work_list(products=[{**good, "operation": "add"}]),
                     'products[0].operation: expected "forward-product" or ')
        self.refused(work_list(products=[{**good, "q": 1}]), "products[0].q is unknown; expected ")
        self.refused(work_list(products=[{"operation": "forward-product", "m": 1, "n": 1}]),
                     "products[0].k is missing")
        self.refused(work_list(products=7), "products: expected a list, got 7")
        self.refused(work_list(products=[7]), "products[0]: expected an object, got 7")
        self.refused(work_list(product=[]), "product is unknown; expected schema, ")
        self.refused({"schema": "ptdp.probe-work/1"}, "precision is missing")
        self.refused({**work_list(), "schema": "ptdp.probe-work/2"}, "schema: expected ")
        self.refused({**work_list(), "precision": "fp8"}, "precision: expected ")
        self.refused(work_list(layers=[{**LAYER, "rope": 1}]),
                     "layers[0].rope: expected true or false, got 1")
        self.refused(work_list(layers=[{**LAYER, "tp": 3}]),
                     "layers[0].num_attention_heads: expected a multiple of tp, 3, got 4")
        self.refused(work_list(layers=[{**LAYER, "num_query_groups": 3}]),
                     "layers[0].num_query_groups: expected a divisor of 4 heads")
        self.refused(work_list(layers=[{**LAYER, "kv_channels": 15}]),
                     "layers[0].kv_channels: expected an even number, got 15")
        self.refused(work_list(collectives=[{"operation": "all-reduce", "bytes": [8, 0]}]),
                     "collectives[0].bytes[1]: expected a whole number from 1, got 0")
        self.refused("[1]", "expected an object, got [1]")
        self.refused("{", "expected JSON: ")
        self.refused("[" * 100000, "expected JSON: ")

    def test_statuses(self):
        result = self.run_probe(work_list(products=[{}]))
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr.splitlines()[-1],
                         r"^probe\.py: \S+work\.json: products\[0\]\.operation is missing$")
        for flags in (["--only", "walks"], ["--seconds", "0"]):
            self.assertEqual(self.call(*flags)[0], 2)
        self.assertEqual(self.call("--work", "/no/such.json"),
                         (2, "probe.py: /no/such.json: No such file or directory\n"))
        status, text = self.call()
        self.assertEqual((status, text[:27]), (2, "probe.py: --work is missing"))

    def test_outputs_are_tried_before_measuring(self):
        path = self.directory / "work.json"
        path.write_text(json.dumps(work_list()))
        with mock.patch.object(tool, "measure_all", side_effect=AssertionError):
            for output in (self.directory, self.directory / "no" / "probe.json"):
                status, text = self.call("--work", str(path), "-o", str(output))
                self.assertEqual(status, 5)
                self.assertRegex(text, r"^probe.py: \S+: expected a file that can be written: ")
                self.assertEqual(text.count("\n"), 1)
        tool.write_file(path, "")
        self.assertEqual(sorted(x.name for x in self.directory.iterdir()), ["work.json"])
        self.assertEqual(json.loads(path.read_text()), work_list())

    def test_no_gpu(self):
        path = self.directory / "work.json"
        path.write_text(json.dumps(work_list()))
        with mock.patch.object(torch.cuda, "device_count", lambda: 0):
            status, text = self.call("--work", str(path), "-o", str(self.output), "--device",
                                     "cuda")
        self.assertEqual(status, 4)
        self.assertIn("--device cuda: torch", text)

    def call(self, *flags):
        """Exit status and standard error of the command, in this process."""
        text = io.StringIO()
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        with mock.patch.object(sys, "argv", ["probe.py", *flags]), contextlib.redirect_stderr(text):
            try:
                status = tool.main()
            except SystemExit as end:  # argparse's
                status = end.code
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), handlers):
            signal.signal(number, handler)
        return status, text.getvalue()

    def test_oldest_python(self):
        ast.parse(SCRIPT.read_text(), feature_version=(3, 9))


class MadeUpGpu(Case):
    """What the probe asks of torch.cuda, which answers by the clock of this host."""

    class Event:
        def __init__(self, enable_timing):
            self.time = enable_timing

        def record(self):
            self.time = time.perf_counter()

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return 1e3 * (end.time - self.time)

    def test_all_sections(self):
        pauses = []

        def sleep(cycles):
            pauses.append(cycles)
            time.sleep(1e-9 * cycles)

        smi = self.directory / "nvidia-smi"
        smi.write_text("#!/bin/sh\ncase $* in\n"
                       "*power.limit*) echo 700.00 ;;\n"
                       "*-i\\ 3*) echo 1200, 1980, Active, Not Active, Active, Not Active ;;\n"
                       "esac\n")
        smi.chmod(0o755)
        properties = mock.Mock(total_memory=80 * 2**30, multi_processor_count=132, major=9, minor=0)
        properties.name = "A GPU"
        fakes = {"Event": self.Event, "_sleep": sleep, "synchronize": lambda: None,
                 "mem_get_info": lambda: (2**30, 2**31), "empty_cache": lambda: None,
                 "reset_peak_memory_stats": lambda: None, "max_memory_allocated": lambda: 12345,
                 "current_device": lambda: 1, "get_device_properties": lambda _: properties}
        environment = {"PATH": f"{self.directory}:{os.environ['PATH']}",
                       "CUDA_VISIBLE_DEVICES": "2,3"}
        work = work_list(products=products((32, 32, 32), (64, 64, 64)), layers=[LAYER],
                         element_wise=WHOLE["element_wise"][:2], attention=[], collectives=[])
        product = tool.product

        def small_product(probe, operation, m, n, k):
            return product(probe, operation, min(m, 256), min(n, 256), min(k, 256))

        with mock.patch.multiple(torch.cuda, create=True, **fakes), \
                mock.patch.dict(os.environ, environment), \
                mock.patch.multiple(tool, SUSTAINED_S=0.2, REST_S=0.0, product=small_product), \
                contextlib.redirect_stderr(io.StringIO()):
            probe = self.probe(is_gpu=True)
            probe.prepare()
            sections = tool.sections_to_measure(probe, work, list(tool.SECTIONS), 1)
            tool.measure_all(probe, work, sections, 0)
            answer = tool.answer(probe, work)
        self.assertEqual(answer["device"], {
            "name": "A GPU", "memory_GiB": 80.0, "num_multiprocessors": 132,
            "compute_capability": "9.0", "power_limit_W": 700.0, "backend": "cuda"})
        self.assertEqual(len(answer["measured_operations"]), 2)
        self.assertEqual(answer["layers"][0]["peak_memory_bytes"], 12345)
        self.assertGreater(answer["host_time_per_kernel_us"], 0.1)
        self.assertGreater(answer["matmul_sustained"], 0)
        self.assertEqual(answer["skipped"], [])
        self.assertIn("clocks throttled: 1200 of 1980 MHz under load, held back by heat and its "
                      "power limit", "\n".join(answer["warnings"]))
        self.assertTrue(0.2e9 < probe.cycles < 1.05e9, probe.cycles)  # a cycle of the pause is 1 ns
        self.assertGreater(len(pauses), 20)


if __name__ == "__main__":
    unittest.main()
