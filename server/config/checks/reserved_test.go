package checks_test

import (
	"fmt"
	"strings"
	"testing"

	"nstance.dev/server/config"
)

// TestS14_NoKeyOfTheClusterIsAFile: whatever prefix or source is configured.
func TestS14_NoKeyOfTheClusterIsAFile(t *testing.T) {
	for name, tt := range map[string]struct {
		server, source string
		path           string // of the problem; empty: none
	}{
		"under files":                        {``, "files/motd", ""},
		"another place, not allowed":         {``, "images/x", "templates.t.files.f.source"},
		"another place, allowed":             {`"allow_any_storage_source": true,`, "images/x", ""},
		"a template, allowed":                {`"allow_any_storage_source": true,`, "{{ .Vars.place }}", ""},
		"the authority's key":                {`"allow_any_storage_source": true,`, "secret/ca.key", "templates.t.files.f.source"},
		"a secret":                           {`"allow_any_storage_source": true,`, "secret/app-token", "templates.t.files.f.source"},
		"a secret by a template":             {`"allow_any_storage_source": true,`, "secret/{{ .Vars.place }}", "templates.t.files.f.source"},
		"a record":                           {`"allow_any_storage_source": true,`, "instance/s/x", "templates.t.files.f.source"},
		"a configuration":                    {`"allow_any_storage_source": true,`, "config/s.jsonc", "templates.t.files.f.source"},
		"what will be a record":              {`"allow_any_storage_source": true,`, "machine/s/x", "templates.t.files.f.source"},
		"the key in another place":           {`"allow_any_storage_source": true, "secrets": {"prefix": "keys/"},`, "keys/ca.key", "templates.t.files.f.source"},
		"secrets among files":                {`"secrets": {"prefix": "files/"},`, "files/x", "server.secrets.prefix"},
		"secrets below files":                {`"secrets": {"prefix": "files/secret/"},`, "files/x", "server.secrets.prefix"},
		"secrets among records":              {`"secrets": {"prefix": "instance/"},`, "files/x", "server.secrets.prefix"},
		"secrets among configurations":       {`"secrets": {"prefix": "config/"},`, "files/x", "server.secrets.prefix"},
		"secrets where a beginning is taken": {`"secrets": {"prefix": "c"},`, "files/x", "server.secrets.prefix"},
		"secrets in a place of their own":    {`"secrets": {"prefix": "keys/"},`, "files/x", ""},
		"secrets elsewhere, with that name":  {`"secrets": {"provider": "aws-secrets-manager", "prefix": "config/"},`, "files/x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf(`{
				"server": { %s "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } },
				"templates": { "t": { "kind": "web", "arch": "amd64", "instance_type": "x", "subnet_pool": "p", "vars": { "place": "images/x" },
					"userdata": { "content": "{{ .Nonce }}" }, "files": { "f": { "kind": "storage", "source": %q } } } }
			}`, tt.server, tt.source)
			_, err := config.Load("test.jsonc", []byte(text), config.LoadOptions{})
			if tt.path == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if tt.path != "" && (err == nil || !strings.Contains(err.Error(), tt.path+":")) {
				t.Errorf("got %v, want a problem of %s", err, tt.path)
			}
		})
	}
}
