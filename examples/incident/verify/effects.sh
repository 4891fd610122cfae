# One line an effect: as many as there were calls, no more and no fewer.
log=/submission/workspace/ops/effects.log
effects=$(($([ -f "$log" ] && wc -l < "$log" || echo 0)))
reward=0
if [ "$effects" -eq "$EXPECTED" ]; then reward=1; fi
echo "{\"reward\": $reward, \"effects\": $effects}" > /verdict/reward.json
