package dev

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"text/template"

	"nstance.dev/providers/local/rules"
	"nstance.dev/server/config"
)

// ConfigOptions are what a configuration for one box is made with.
type ConfigOptions struct {
	MachinesDir       string // absolute; each machine has a directory in it
	EncryptionKeyFile string // absolute
	Group             string // key of the one group; web
	Size              int    // of the group
	Demand            string // block "demand" of the group, as JSON, for a group of mode demand; empty: it has a size
	Arch              string // amd64 or arm64, the box's own
	Userdata          string // template of what a machine runs
}

// demandExample is a block "demand" of a group.
const demandExample = `{"max": 4, "release_hold": "30s"}`

//go:embed config.jsonc.tmpl
var configText string

var configTemplate = template.Must(template.New("config").Delims("<<", ">>").Funcs(template.FuncMap{
	"json": func(v any) (string, error) {
		data, err := json.Marshal(v)
		return string(data), err
	},
}).Parse(configText))

// Config gives the text of a configuration for trying things out: cluster "dev",
// shard "local", one group, machines that are processes of this box, short
// intervals, and nothing that can be reached from another one. It has comments
// for the reader, and [config.Load] takes it as it is.
func Config(opts ConfigOptions) ([]byte, error) {
	if opts.Group == "" {
		opts.Group = "web"
	}
	if opts.Demand != "" {
		var block map[string]any
		if err := json.Unmarshal([]byte(opts.Demand), &block); err != nil || block == nil {
			return nil, fmt.Errorf("demand: %q is not a JSON object such as %s", opts.Demand, demandExample)
		}
	}
	var out bytes.Buffer
	if err := configTemplate.Execute(&out, opts); err != nil {
		return nil, fmt.Errorf("development configuration: %w", err)
	}
	if _, err := config.Load("dev.jsonc", out.Bytes(), config.LoadOptions{Rules: rules.New()}); err != nil {
		return nil, fmt.Errorf("development configuration: %w", err)
	}
	return out.Bytes(), nil
}
