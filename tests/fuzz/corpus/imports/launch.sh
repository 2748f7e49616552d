#!/bin/bash
#SBATCH --nodes=4 --gres=gpu:8
N=${SLURM_NNODES:-4} G=8
SIZE=7b
case $SIZE in 1b) L=16;; 7b|8b) L=32 H=4096;; *) exit 1;; esac
if [[ $L -gt 16 && -n "$H" ]]; then TP=2; elif [ -f x ]; then TP=4; else TP=1; fi
ARGS=(--num-layers $L --hidden-size $H --num-attention-heads 32)
ARGS+=(--seq-length $((1 << 2)) --micro-batch-size 1 "--bf16")
launch() { torchrun --nnodes "$N" --nproc_per_node=$G pretrain_gpt.py "$@"; }
launch "${ARGS[@]}" --tensor-model-parallel-size $TP --global-batch-size $((N * G * 4)) ${X:+--x ${X%%.*}}
