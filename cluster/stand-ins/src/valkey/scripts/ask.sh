# Prints the address that the sentinel of this pod takes for the primary's.
REDISCLI_AUTH=$(cat /etc/c5c3/secret/password) timeout 3 valkey-cli -p 26379 --raw sentinel get-master-addr-by-name primary | head -n 1
