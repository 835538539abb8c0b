package bootstrap

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"nstance.dev/protos/binding"
)

// example is a machine with something in every field.
func example() Machine {
	return Machine{
		ClusterID: "example", Tenant: "red", MachineID: "wrk-1", RequestID: "0f", InstanceType: "m7i.large", Zone: "us-west-2a", CapacityType: "spot",
		Requirements:  []Requirement{{"kubernetes.io/arch", "In", []string{"amd64", "arm64"}}},
		NodeLabels:    map[string]string{"nstance.dev/instance-id": "wrk-1", "a": "b"},
		Taints:        []binding.Taint{{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}},
		StartupTaints: []binding.Taint{{Key: "cni", Effect: "NoExecute"}},
		Vars:          map[string]string{"endpoint": "10.0.0.1:6443", "lines": "one\ntwo", "trap": `a'b"$(c)`},
	}
}

func TestTemplates(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	for path, content := range map[string]string{filepath.Join(dir, "ca.crt"): "PEM", outside: "far", filepath.Join(dir, "big"): strings.Repeat("x", binding.MaxBlob+1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A mounted ConfigMap is links to a directory that is replaced.
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "..2026"), 0o700), os.WriteFile(filepath.Join(dir, "..2026", "hash"), []byte("h"), 0o600),
		os.Symlink("..2026", filepath.Join(dir, "..data")), os.Symlink("..data/hash", filepath.Join(dir, "hash")),
		os.Symlink(outside, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, text, want, fails string }{
		{"every field", `{{.ClusterID}} {{.Tenant}} {{.MachineID}} {{.RequestID}} {{.InstanceType}} {{.Zone}} {{.CapacityType}}`, "example red wrk-1 0f m7i.large us-west-2a spot", ""},
		{"requirements", `{{range .Requirements}}{{.Key}} {{.Operator}} {{join "|" .Values}}{{end}}`, "kubernetes.io/arch In amd64|arm64", ""},
		{"labels and taints as flags", `{{.LabelFlag}} {{.TaintFlag}}`, "a=b,nstance.dev/instance-id=wrk-1 cni=:NoExecute,dedicated=gpu:NoSchedule", ""},
		{"taints one by one", `{{range .AllTaints}}{{.Key}}={{.Value}}:{{.Effect}};{{end}}{{len .Taints}}{{len .StartupTaints}}`, "dedicated=gpu:NoSchedule;cni=:NoExecute;11", ""},
		{"a variable", `{{.Vars.endpoint}}`, "10.0.0.1:6443", ""},
		{"one that may be missing", `{{with index .Vars "missing"}}{{.}}{{else}}none{{end}}`, "none", ""},
		{"one that is missing", `{{.Vars.missing}}`, "", `no entry for key "missing"`},
		{"a label that is missing", `{{.NodeLabels.missing}}`, "", `no entry for key "missing"`},
		{"a field that does not exist", `{{.Password}}`, "", "can't evaluate field Password"},
		{"base64", `{{b64 .Vars.endpoint}}`, "MTAuMC4wLjE6NjQ0Mw==", ""},
		{"indent", `x:{{"\n"}}{{indent 2 .Vars.lines}}`, "x:\n  one\n  two", ""},
		{"indent by a pipe", `{{.Vars.lines | indent 1}}`, " one\n two", ""},
		{"indent without measure", `{{indent 1000000000 "x"}}`, "", "0 to 100"},
		{"quote", `{{quote .Vars.trap}}`, `'a'\''b"$(c)'`, ""},
		{"quote a zero byte", `{{quote "a\x00b"}}`, "", "zero byte"},
		{"JSON", `{{toJson .Vars.trap}} {{toJson .Taints}}`, `"a'b\"$(c)" [{"key":"dedicated","value":"gpu","effect":"NoSchedule"}]`, ""},
		{"JSON of what has none", `{{toJson .LabelFlag | len}}{{toJson (index .Requirements 0)}}`, `35{"Key":"kubernetes.io/arch","Operator":"In","Values":["amd64","arm64"]}`, ""},
		{"join of no list", `{{join "," .Zone}}`, "", "string is not a list"},
		{"a file", `{{file "ca.crt"}} {{file "./ca.crt"}} {{file "hash"}}`, "PEM PEM h", ""},
		{"a file that does not exist", `{{file "absent"}}`, "", "no such file"},
		{"a file above", `{{file "../outside"}}`, "", "escapes"},
		{"an absolute path", `{{file "` + outside + `"}}`, "", "escapes"},
		{"a link that leads out", `{{file "link"}}`, "", "escapes"},
		{"a directory", `{{file "."}}`, "", "not a regular file"},
		{"a large file", `{{file "big"}}`, "", "larger than"},
		{"a token", `{{bootstrapToken}}`, "abcdef.0123456789abcdef", ""},
		{"nothing", `{{if false}}x{{end}} `, "", "rendered nothing"},
		{"too much", `{{$x := printf "%600000d" 1}}{{$x}}{{$x}}`, "", "more than 1048576 bytes"},
		{"recursion without end", `{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`, "", "exceeded maximum template depth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parsed, err := Parse("test.tmpl", tt.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parsed.execute(example(), dir, func() (string, error) { return "abcdef.0123456789abcdef", nil })
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("execute() = %q, %v, want an error with %q", got, err, tt.fails)
				}
				return
			}
			if err != nil || string(got) != tt.want {
				t.Errorf("execute() = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestTemplatesThatCannotBeParsed(t *testing.T) {
	for _, text := range []string{"", " \n", "{{", "{{.Zone", "{{nothing}}", "{{if}}{{end}}", "{{b64}", `{{template "absent"}}{{define "x"}}`} {
		if _, err := Parse("test.tmpl", text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// A template needs tokens if it calls the function anywhere, and only then.
func TestUsesToken(t *testing.T) {
	for text, want := range map[string]bool{
		`x`: false, `bootstrapToken {{/* bootstrapToken */}}`: false, `{{"bootstrapToken"}}`: false, `{{.Vars.bootstrapToken}}`: false,
		`{{bootstrapToken}}`: true, `{{quote bootstrapToken}}`: true, `{{bootstrapToken | quote}}`: true, `{{$t := bootstrapToken}}x`: true,
		`{{if .Zone}}x{{else}}{{bootstrapToken}}{{end}}`: true, `{{if bootstrapToken}}x{{end}}`: true, `{{range .Taints}}{{bootstrapToken}}{{end}}`: true,
		`{{with .Zone}}{{quote (bootstrapToken)}}{{end}}`: true, `{{define "a"}}{{bootstrapToken}}{{end}}{{template "a"}}`: true,
		`{{define "a"}}{{.}}{{end}}{{template "a" bootstrapToken}}`: true, `{{(bootstrapToken).X}}`: true,
	} {
		parsed, err := Parse("test.tmpl", text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if parsed.UsesToken() != want {
			t.Errorf("%s: UsesToken() = %v", text, !want)
		}
	}
}

// What a shell makes of a quoted text is the text.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a b", "'", "''", `\`, "$(touch /tmp/x)`id`", "a\nb", "!", "~", "\x7f\xff", "-n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		word, err := quote(s)
		if strings.ContainsRune(s, 0) {
			if err == nil {
				t.Errorf("quote(%q) = %q", s, word)
			}
			return
		}
		got, err := exec.Command("sh", "-c", "printf %s "+word).Output()
		if err != nil || string(got) != s {
			t.Errorf("quote(%q): a shell reads %q, %v", s, got, err)
		}
	})
}

// What JSON and YAML make of a text is the text.
func FuzzToJSON(f *testing.F) {
	for _, s := range []string{"", "a: b", "#", "<&>", "\u2028", "{{", "\x00\x1f", "no", "~"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			t.Skip("a message of the wire has no such text")
		}
		text, err := toJSON(s)
		if err != nil {
			t.Fatal(err)
		}
		var asJSON, asYAML string
		if err := json.Unmarshal([]byte(text), &asJSON); err != nil || asJSON != s {
			t.Errorf("toJson %q is %s, which JSON reads as %q, %v", s, text, asJSON, err)
		}
		if strings.ContainsAny(s, "\x7f\ufeff\ufffe\uffff") {
			return // YAML has them escaped alone
		}
		if err := yaml.Unmarshal([]byte(text), &asYAML); err != nil || asYAML != s {
			t.Errorf("toJson %q is %s, which YAML reads as %q, %v", s, text, asYAML, err)
		}
	})
}
