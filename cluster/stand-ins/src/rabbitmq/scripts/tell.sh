# Has the running node evaluate its input. Anything but ok is a failure.
said=$(erl_call -name "$RABBITMQ_NODENAME" -e)
[ "$said" = '{ok, ok}' ] && exit 0
echo "${said:-the node does not answer}" >&2
exit 1
