"""How many blocks of a kernel a multiprocessor holds at once, and whether one can be launched.

Limits are those of the GPUs in gpus/, by architecture. Formulas: cuda_occupancy.h of CUDA 13.
Registers are given to warps by 256, in four parts of a multiprocessor; shared memory to blocks by
128 bytes."""

import json

WARP = 32
REGISTERS_AT_ONCE = 256
PARTS = 4
SHARED_AT_ONCE = 128
MOST_REGISTERS_OF_THREAD = 255


def read_gpus(folder):
    """The described GPUs by architecture, 90 for sm_90."""
    described = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {gpu["deviceVer"] // 10: gpu for gpu in described}


def round_up(x, unit):
    return -(-x // unit) * unit


def blocks_at_once(gpu, threads, registers, shared):
    """The blocks of so many threads that are resident on a multiprocessor, each with so many bytes
    of shared memory, as many as fit of the largest share of shared memory. 0: none can run."""
    warps = -(-threads // WARP)
    of_warp = round_up(registers * WARP, REGISTERS_AT_ONCE)
    shared = round_up(shared + gpu["reservedSharedMemoryPerBlock"], SHARED_AT_ONCE)
    all_shared = gpu["maxSharedMemoryPerBlockOptin"] + gpu["reservedSharedMemoryPerBlock"]
    if (threads > gpu["maxThreadsPerBlock"] or registers > MOST_REGISTERS_OF_THREAD
            or of_warp * round_up(warps, PARTS) > gpu["regsPerBlock"] or shared > all_shared):
        return 0
    warps_by_registers = gpu["maxRegistersPerSM"] // PARTS // of_warp * PARTS
    return min(gpu["maxCtasPerSM"], gpu["maxThreadsPerSM"] // (warps * WARP),
               warps_by_registers // warps, all_shared // shared)
