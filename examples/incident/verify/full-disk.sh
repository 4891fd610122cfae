# The report names the file, it is gone, and nothing else is: looked up in the fork, at /env.
reward=0
if [ "$(cat /submission/workspace/report.txt 2>/dev/null)" = /workspace/data/app/core.17 ] &&
  [ ! -e /env/workspace/data/app/core.17 ] && [ -s /env/workspace/data/app/orders.csv ]; then
  reward=1
fi
ls -l /env/workspace/data/app
echo "$reward" > /verdict/reward.txt
