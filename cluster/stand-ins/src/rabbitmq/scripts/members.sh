# Prints the nodes that run in one cluster with this one.
echo 'rabbit_nodes:all_running().' | timeout 10 erl_call -name "$RABBITMQ_NODENAME" -e
