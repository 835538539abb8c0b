package local

// DefaultUserData is a template of user data for machines of this provider: it
// lays out what the agent needs in the machine's directory and becomes the
// agent. A machine that is started again keeps the identity that it has, and
// does not see its nonce a second time. printf is built into the shell, so the
// nonce is never an argument of a process. With the variable joins_clusters of
// its group or template the machine can join clusters.
const DefaultUserData = `#!/bin/sh
set -eu
umask 077
d=$NSTANCE_MACHINE_DIR
if [ ! -s "$d/identity/identity.crt" ]; then
	printf '%s' '{{ .Cluster.CACert }}' > "$d/identity/ca.crt"
	printf '%s' '{{ .Nonce }}' > "$d/identity/nonce.jwt"
fi
export NSTANCE_INSTANCE_ID='{{ .Instance.ID }}'
export NSTANCE_IDENTITY_DIR="$d/identity" NSTANCE_KEYS_DIR="$d/keys" NSTANCE_RECV_DIR="$d/recv"
{{- with index .Vars "joins_clusters" }}
# The part of nstance-cluster.service is a process beside the agent, with no more rights than it.
r=$(cd "$d" && pwd -P)
mkdir -p "$r/leave.d"
export NSTANCE_CLUSTER_DIR="$r/cluster" NSTANCE_CLUSTER_STATUS="$r/cluster-unit/status"
set -- cluster-unit --requests "$r/cluster" --state "$r/cluster-unit" --leave "$r/leave.d"
"$NSTANCE_AGENT" "$@"
"$NSTANCE_AGENT" "$@" --watch &
{{- end }}
exec "$NSTANCE_AGENT"
`
