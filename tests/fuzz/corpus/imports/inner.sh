export NAME=`hostname` L='12'
cat <<EOT > job.sh
python a.py --num-layers $L --hidden-size ${H:=64} --seq-length ${S//k/000}
EOT
bash -c 'exec python a.py --num-layers 2 --hidden-size 64 "$@"' sh --seq-length 128
eval "python b.py --num-layers ${L:0:1} --bf16"
for i in 1 2; do echo $i; done; source env.sh && ! true || ssh host "python a.py --bf16 --num-layers 3"
