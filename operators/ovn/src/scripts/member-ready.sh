# The member answers and is in touch with a majority.
ovsdb-client --timeout=4 query unix:/run/ovn/db.sock \
  '["_Server",{"op":"select","table":"Database","where":[["name","==","'"$SCHEMA"'"]],"columns":["connected"]}]' |
  grep -q '"connected":true'
