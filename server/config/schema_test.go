package config_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"nstance.dev/server/config"
	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/internal/schemagen"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/schema"
)

func TestSchema_isUpToDate(t *testing.T) {
	text, err := schemagen.Schema()
	if err != nil {
		t.Fatal(err)
	}
	reference, err := schemagen.Reference(text)
	if err != nil {
		t.Fatal(err)
	}
	providers, err := schemagen.Providers()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]byte{
		"schema/config.schema.json":             text,
		"schema/providers.json":                 providers,
		"../../docs/config.schema.json":         text,
		"../../docs/reference/configuration.md": reference,
	} {
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date (%v): run go generate ./config in the server's folder, or make generate", path, err)
		}
	}
}

func TestSchema_agreesWithLoad(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.JSON()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	full := configtest.Full()
	small := []byte(`{ "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" },
		"subnet_pools": { "p": ["n"] }, "health_check_interval": "2s" } }`)
	for name, c := range map[string]struct {
		text []byte
		ok   bool
	}{
		"full": {full, true}, "small": {small, true},
		"misspelt": {bytes.Replace(small, []byte(`"zone"`), []byte(`"zoen"`), 1), false},
		"mistyped": {bytes.Replace(small, []byte(`"2s"`), []byte(`2`), 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			plain, err := jsonc.Standard("f", c.text)
			if err != nil {
				t.Fatal(err)
			}
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
			if err != nil {
				t.Fatal(err)
			}
			if err := compiled.Validate(value); (err == nil) != c.ok {
				t.Errorf("schema: %v", err)
			}
			if _, err := config.Load("f", c.text, config.LoadOptions{}); (err == nil) != c.ok {
				t.Errorf("Load: %v", err)
			}
		})
	}
}
