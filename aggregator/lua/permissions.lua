#!lua flags=no-writes
-- Tells what the connection's user may not do: a script that is refused a command half way has done
-- the first half, so this is asked before any other script runs.
--
-- KEYS  a key of a shard
-- ARGV  names of commands, with subcommand if they have any
-- Returns those that the user may not run on that key.

local refused = {}
for _, command in ipairs(ARGV) do
  local name, sub = string.match(command, '^(%S+) ?(%S*)$')
  local permitted
  if sub == '' then
    permitted = redis.acl_check_cmd(name, KEYS[1])
  else
    permitted = redis.acl_check_cmd(name, sub, KEYS[1])
  end
  if not permitted then
    refused[#refused + 1] = command
  end
end
return refused
