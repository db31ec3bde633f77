#!/bin/sh
# Gives the store's user its password, then becomes the store: start.sh PROGRAM ARGUMENT...
#
# STORE_PASSWORD  letters, digits, - and _, at least 16: it stands in REDIS_URL as it is
# STORE_RUN       folder for the file of users (/run/store); it holds a hash of the password
set -eu
umask 077

password=${STORE_PASSWORD:-}
if [ "${#password}" -lt 16 ] || [ -n "$(printf %s "$password" | tr -d 'A-Za-z0-9_-')" ]; then
    echo "STORE_PASSWORD must be at least 16 letters, digits, - and _" >&2
    exit 1
fi
hash=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
unset STORE_PASSWORD

{
    echo "user default off"
    # For the health check: it can ask whether the store answers, and nothing else.
    echo "user health on nopass resetchannels -@all +ping"
    sed "s/\$/ #$hash/" "$(dirname "$0")/users.acl"
} > "${STORE_RUN:-/run/store}/users.acl"
exec "$@"
