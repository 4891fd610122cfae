# Looks at what the agent left in its workspace, as another user, in a container of its own.
if [ "$(cat /submission/workspace/answer.txt 2>/dev/null)" = 42 ]; then
  echo 1 > /verdict/reward.txt
else
  echo 0 > /verdict/reward.txt
fi
