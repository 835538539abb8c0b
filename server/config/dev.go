package config

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"text/template"
)

// DevOptions are what a configuration for one box is made with.
type DevOptions struct {
	MachinesDir       string // absolute; each machine has a directory in it
	EncryptionKeyFile string // absolute
	AgentPath         string // absolute; empty: beside the server's own program
	Group             string // key of the one group; web
	Size              int    // of the group
	Arch              string // amd64 or arm64, the box's own
	Userdata          string // template of what a machine runs; empty: one that becomes the agent
}

//go:embed dev.jsonc.tmpl
var devText string

var devTemplate = template.Must(template.New("dev").Delims("<<", ">>").Funcs(template.FuncMap{
	"json": func(v any) (string, error) {
		data, err := json.Marshal(v)
		return string(data), err
	},
}).Parse(devText))

// Dev gives the text of a configuration for trying things out: cluster "dev",
// shard "local", one group, machines that are processes of this box, short
// intervals, and nothing that can be reached from another one. It has comments
// for the reader, and [Load] takes it as it is.
func Dev(opts DevOptions) ([]byte, error) {
	if opts.Group == "" {
		opts.Group = "web"
	}
	if opts.Userdata == "" {
		opts.Userdata = devUserdata
	}
	var out bytes.Buffer
	if err := devTemplate.Execute(&out, opts); err != nil {
		return nil, fmt.Errorf("development configuration: %w", err)
	}
	if _, err := Load("dev.jsonc", out.Bytes(), LoadOptions{}); err != nil {
		return nil, fmt.Errorf("development configuration: %w", err)
	}
	return out.Bytes(), nil
}

// devUserdata is the user data of a machine that is a process of this box. The
// provider sets NSTANCE_MACHINE_DIR and NSTANCE_AGENT; what else it sets is left
// as it is.
const devUserdata = `#!/bin/sh
set -eu
umask 077
d=$NSTANCE_MACHINE_DIR
export NSTANCE_INSTANCE_ID='{{ .Instance.ID }}'
export NSTANCE_IDENTITY_DIR="${NSTANCE_IDENTITY_DIR:-$d/identity}"
export NSTANCE_KEYS_DIR="${NSTANCE_KEYS_DIR:-$d/keys}"
export NSTANCE_RECV_DIR="${NSTANCE_RECV_DIR:-$d/recv}"
export NSTANCE_SERVER_ADDR_FILE="${NSTANCE_SERVER_ADDR_FILE:-${d%/*}/leader.json}"
mkdir -p "$NSTANCE_IDENTITY_DIR" "$NSTANCE_KEYS_DIR" "$NSTANCE_RECV_DIR"
if [ ! -e "$NSTANCE_IDENTITY_DIR/identity.crt" ]; then
  printf '%s' {{ .Cluster.CACert | squote }} > "$NSTANCE_IDENTITY_DIR/ca.crt"
  printf '%s' {{ .Nonce | squote }} > "$NSTANCE_IDENTITY_DIR/nonce.jwt"
fi
exec "$NSTANCE_AGENT"
`
