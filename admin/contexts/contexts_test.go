package contexts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/admin/contexts"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const twoClusters = `# my clusters
current_context: "prod" # careful
contexts:
  prod:
    cluster_id: p
    identity_dir: prod-identity
    servers: {a: "h:1"}
  dev: {file: dev.json} # from make dev
`

// twoContexts returns the path of a configuration file, beside which stands the
// file of its second context.
func twoContexts(t *testing.T) string {
	t.Helper()
	path := write(t, "admin.yaml", twoClusters)
	text := `{"cluster_id": "d", "identity_dir": "id", "servers": {"local": "h:2"}}`
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "dev.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestAContextFileIsReadStrictly(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"an unknown field": {`{"server": {}}`, `unknown field "server"`},
		"no JSON":          {`servers: {}`, "invalid character"},
		"text after it":    {`{} {}`, "text after"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "admin.json", test.text)
			_, err := contexts.ReadFile(path)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error is %v, want one that names the file and says %q", err, test.want)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	path := twoContexts(t)
	dir := filepath.Dir(path)
	prod := contexts.Selected{Name: "prod", File: path, Context: contexts.Context{
		ClusterID: "p", IdentityDir: filepath.Join(dir, "prod-identity"), Servers: map[string]string{"a": "h:1"},
	}}
	dev := contexts.Context{ClusterID: "d", IdentityDir: filepath.Join(dir, "id"), Servers: map[string]string{"local": "h:2"}}
	file := filepath.Join(dir, "dev.json")
	home := t.TempDir()
	for name, test := range map[string]struct {
		config, context string
		env             []string
		want            contexts.Selected
	}{
		"nothing is said, and there is no file":   {env: []string{"HOME", home}},
		"nothing is said, and there is no home":   {},
		"the current context":                     {config: path, want: prod},
		"a variable names the configuration file": {env: []string{contexts.EnvConfig, path}, want: prod},
		"a name beats the current one":            {config: path, context: "dev", want: contexts.Selected{Context: dev, Name: "dev", File: path}},
		"a variable is a name":                    {config: path, env: []string{"NSTANCE_ADMIN_CONTEXT", "dev"}, want: contexts.Selected{Context: dev, Name: "dev", File: path}},
		"a flag beats the variable":               {config: path, context: "prod", env: []string{"NSTANCE_ADMIN_CONTEXT", "dev"}, want: prod},
		"a path is a file":                        {config: path, context: file, want: contexts.Selected{Context: dev, File: file}},
		"a variable is a file":                    {env: []string{"NSTANCE_ADMIN_CONTEXT", file}, want: contexts.Selected{Context: dev, File: file}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := contexts.Select(test.config, test.context, environment(test.env...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestTheDefaultConfigurationIsInTheUsersFolder(t *testing.T) {
	for _, test := range []struct {
		env  []string
		want string
	}{
		{[]string{"HOME", "/h"}, "/h/.config/nstance/admin.yaml"},
		{[]string{"HOME", "/h", "XDG_CONFIG_HOME", "/x"}, "/x/nstance/admin.yaml"},
		{[]string{"HOME", "/h", "XDG_CONFIG_HOME", "x"}, "/h/.config/nstance/admin.yaml"},
		{nil, ""},
	} {
		if got := contexts.DefaultPath(environment(test.env...)); got != test.want {
			t.Errorf("%q: %q, want %q", test.env, got, test.want)
		}
	}
}

func TestIsFile(t *testing.T) {
	for value, want := range map[string]bool{"": false, "prod": false, "prod.v2": false, "a/b": true, "./prod": true, "admin.json": true, "json": false} {
		if got := contexts.IsFile(value); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	two := twoContexts(t)
	for name, test := range map[string]struct {
		config, context string
		want            []string
	}{
		"a context that does not exist": {two, "stage", []string{`context "stage" does not exist in ` + two, "dev, prod", "write ./stage"}},
		"no configuration file":         {"/nowhere/c.yaml", "x", []string{"/nowhere/c.yaml"}},
		"nowhere to look":               {"", "x", []string{"--config or NSTANCE_ADMIN_CONFIG"}},
		"no contexts":                   {write(t, "a.yaml", "contexts: {}\n"), "x", []string{"has no contexts; add one"}},
		"an unknown field":              {write(t, "a.yaml", "contexts: {a: {server: x}}\n"), "a", []string{"a.yaml", "server"}},
		"a file and more":               {write(t, "a.yaml", "contexts: {a: {file: x, shard: b}}\n"), "a", []string{"contexts.a: file is set"}},
		"a name like a file":            {write(t, "a.yaml", "contexts: {a.json: {shard: b}}\n"), "b", []string{"contexts.a.json: a name must not"}},
		"a file that does not exist":    {write(t, "a.yaml", "contexts: {a: {file: x}}\n"), "a", []string{"context a of ", "no such file"}},
		"a current one that is gone":    {write(t, "a.yaml", "current_context: b\ncontexts: {a: {shard: x}}\n"), "", []string{`context "b" does not exist`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := contexts.Select(test.config, test.context, environment())
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v, want one that says %q", err, want)
				}
			}
		})
	}
}

func TestUseWritesOneLine(t *testing.T) {
	const rest = "contexts:\n  dev: {shard: a}\n"
	for name, test := range map[string]struct{ before, after string }{
		"the line is there":     {twoClusters, strings.Replace(twoClusters, `current_context: "prod" # careful`, `current_context: "dev" # careful`, 1)},
		"a plain name":          {"current_context: prod\t# why\n" + rest, "current_context: \"dev\"\t# why\n" + rest},
		"a mark within quotes":  {"current_context: \"prod # 1\"\n" + rest, "current_context: \"dev\"\n" + rest},
		"a mark within a name":  {"current_context: prod#1 # 2 # 3\n" + rest, "current_context: \"dev\" # 2 # 3\n" + rest},
		"quoted, with a quote":  {"current_context: 'pro''d' # x\n" + rest, "current_context: \"dev\" # x\n" + rest},
		"no name and a comment": {"current_context: # none\n" + rest, "current_context: \"dev\" # none\n" + rest},
		"the line is absent":    {"contexts:\n  dev: {shard: a} # x\n", "current_context: \"dev\"\ncontexts:\n  dev: {shard: a} # x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "admin.yaml", test.before)
			config, err := contexts.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := config.Use("dev"); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.after || config.CurrentContext != "dev" {
				t.Errorf("the file is now\n%s", got)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("its mode is %v", info.Mode())
			}
		})
	}
}

func TestUseRefusesWhatItCannotWrite(t *testing.T) {
	flow := "{contexts: {a: {shard: x}}, current_context: b}\n"
	path := write(t, "admin.yaml", flow)
	config, err := contexts.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.Use("a"); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("error is %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != flow {
		t.Errorf("the file is now %s", got)
	}
	if err := config.Use("c"); err == nil || !strings.Contains(err.Error(), `"c" does not exist`) {
		t.Errorf("error is %v", err)
	}
}
