package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"nstance.dev/server/config"
	"nstance.dev/server/config/jsonc"
)

// P17: the validation of a configuration of 8 MiB, as much as is read at all: also the
// leader does it, at a refresh and for a plan.
//
// Ours: [config.Load] of a shard with thousands of templates, and groups with variables
// of their own that appear in files and arguments.
//
// Floor: decoding the same bytes: comments taken out, and the rest read by encoding/json.
//
// Goal: 4 times the floor, and linear: half the document takes at least 0.35 of the time, where
// a quadratic check would take a quarter.
func measureValidation(ctx context.Context, env Env) ([]Row, error) {
	whole, half := configurationOf(jsonc.MaxBytes), configurationOf(jsonc.MaxBytes/2)
	least, err := interleave(ctx, env.Rounds, validating(whole), decoding(whole), validating(half))
	if err != nil {
		return nil, err
	}
	row := Row{
		Name: "validation of 8 MiB", Unit: "ms", Ours: 1e3 * least[0], Floor: 1e3 * least[1],
		Against: "decoding the same bytes", Goal: AtMost(4),
	}
	if share := least[2] / least[0]; share < 0.35 {
		row.Broken = fmt.Sprintf("not linear: half the document takes %.2f of the time", share)
	}
	return []Row{row}, nil
}

// configurationOf is a valid configuration of nearly so many bytes.
func configurationOf(size int) []byte {
	const begin = `{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } },
`
	var templates, groups strings.Builder
	for n := 0; len(begin)+templates.Len()+groups.Len()+2000 < size; n++ {
		if n%20 == 0 {
			fmt.Fprintf(&templates, `    "t%d": { // one of many
      "kind": "knc", "arch": "arm64", "instance_type": ["small", "large"], "subnet_pool": "p", "vars": { "role": "worker", "zone": "z" },
      "args": { "Tags": ["{{ .Vars.role }}", "fixed"], "Name": "{{ .Instance.ID }}" },
      "userdata": { "content": "#!/bin/sh\necho {{ .Nonce }} {{ .Vars.role }} %s\n" },
      "files": { "role": { "kind": "string", "template": "{{ .Vars.role }}" }, "env": { "kind": "env", "template": { "ZONE": "{{ .Vars.zone }}" } } },
    },
`, n/20, strings.Repeat("# a line of a script\\n", 40))
		}
		fmt.Fprintf(&groups, "      \"g%d\": { \"template\": \"t%d\", \"size\": %d, \"vars\": { \"number\": \"%d\" }, \"drain_timeout\": \"5m\" },\n", n, n/20, n%100, n)
	}
	return []byte(begin + "  \"templates\": {\n" + templates.String() + "  },\n  \"groups\": {\n    \"default\": {\n" + groups.String() + "    },\n  },\n}\n")
}

func validating(text []byte) contender {
	return func(context.Context) (float64, error) {
		began := time.Now()
		_, err := config.Load("config.jsonc", text, config.LoadOptions{})
		return time.Since(began).Seconds(), err
	}
}

func decoding(text []byte) contender {
	return func(context.Context) (float64, error) {
		began := time.Now()
		plain, err := hujson.Standardize(text)
		if err != nil {
			return 0, err
		}
		var all any
		err = json.Unmarshal(plain, &all)
		return time.Since(began).Seconds(), err
	}
}
