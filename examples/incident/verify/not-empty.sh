# There is something in the report.
reward=0
if [ -s /submission/workspace/report.txt ]; then reward=1; fi
echo "$reward" > /verdict/reward.txt
