package render

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/texttemplate"
	"nstance.dev/server/layout"
)

const nonce = "eyJhbGciOiJFZERTQSJ9.claims.signature"

func data() Data {
	d := texttemplate.Sample(map[string]string{"role": "web", "odd": "a \"b\" $c `d` \\ e\nf#"}, map[string]string{"debian": "ami-1"})
	d.Nonce = nonce
	d.Instance.IP6 = ""
	return d
}

const shellScript = `#!/bin/sh
set -eu
umask 077
d=/opt/nstance-agent; mkdir -p $d/identity $d/keys $d/recv
printf '%s' '{{ .Cluster.CACert }}' > $d/identity/ca.crt
printf '%s' '{{ .Nonce }}'          > $d/identity/nonce.jwt
cat > $d/agent.env <<EOT
NSTANCE_INSTANCE_ID={{ .Instance.ID }}
NSTANCE_SERVER_REGISTRATION_ADDR={{ .Server.RegistrationAddr }}
NSTANCE_SERVER_AGENT_ADDR={{ .Server.AgentAddr }}
EOT
systemctl enable --now nstance-agent
`

func TestUserdata(t *testing.T) {
	want := strings.NewReplacer(
		"{{ .Cluster.CACert }}", data().Cluster.CACert, "{{ .Nonce }}", nonce, "{{ .Instance.ID }}", data().Instance.ID,
		"{{ .Server.RegistrationAddr }}", "192.0.2.2:8992", "{{ .Server.AgentAddr }}", "192.0.2.2:8994",
	).Replace(shellScript)
	for name, c := range map[string]struct {
		userdata document.Userdata
		fetched  string
		want     string
	}{
		"inline":                 {document.Userdata{Content: shellScript}, "not looked at", want},
		"from a url":             {document.Userdata{Source: document.SourceURL, Content: "https://example.com/x"}, "{{ .Vars.role }}", "web"},
		"base64":                 {document.Userdata{Encoding: document.EncodingBase64, Content: "e3sgLlZhcnMucm9sZSB9fQ=="}, "", "web"},
		"the policy of its host": {document.Userdata{Content: "cat >policy <<END\n{{ .Machine.Policy }}END"}, "", "cat >policy <<END\n" + data().Machine.Policy + "END"},
		"none at all":            {document.Userdata{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Userdata(c.userdata, []byte(c.fetched), data(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestF51_userdataIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		limit   int
	}{
		"missing variable":    {"{{ .Vars.none }}", 0},
		"above the limit":     {strings.Repeat("x", 101), 100},
		"grows over it":       {"{{ range 30 }}xxxxx{{ end }}", 100},
		"above our own limit": {strings.Repeat("x", MaxUserdata+1), 1 << 30},
		"makes a NUL":         {`{{ b64dec "AAAA" }}`, 0},
		"address too early":   {`{{ index .Instance "IP4" }}`, 0},
		"the nonce in error":  {`{{ .Nonce.None }}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Userdata(document.Userdata{Content: c.content}, nil, data(), c.limit)
			if e := new(Error); !errors.As(err, &e) || e.Place != "userdata" {
				t.Fatalf("Userdata = %d bytes, %v", len(out), err)
			}
			if strings.Contains(err.Error(), nonce) {
				t.Errorf("the nonce stands in %v", err)
			}
		})
	}
}

func TestArgs(t *testing.T) {
	args := map[string]any{
		"ImageId": "{{ .Image.debian }}", "Count": json.Number("2"), "Flag": true, "Nothing": nil,
		"Tags": []any{map[string]any{"Key": "role", "Value": "{{ .Vars.role }}-{{ .Instance.Kind }}"}},
	}
	before, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Args(args, data())
	want := map[string]any{
		"ImageId": "ami-1", "Count": json.Number("2"), "Flag": true, "Nothing": nil,
		"Tags": []any{map[string]any{"Key": "role", "Value": "web-smp"}},
	}
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("Args = %v, %v", got, err)
	}
	if after, err := json.Marshal(args); err != nil || string(after) != string(before) {
		t.Error("the arguments were changed")
	}
	_, err = Args(map[string]any{"A": map[string]any{"b": []any{"", "{{ .Nonce }}"}}}, data())
	if e := new(Error); !errors.As(err, &e) || e.Place != "args.A.b[1]" {
		t.Errorf("error = %v", err)
	}
}

func TestFile(t *testing.T) {
	for name, c := range map[string]struct {
		file document.File
		want string // "-" for an error
	}{
		"string": {document.File{Kind: document.FileString, Template: "{{ .Instance.IP4 }}\n"}, "192.0.2.1\n"},
		"env": {document.File{Kind: document.FileEnv, Template: map[string]any{"ROLE": "{{ .Vars.role }}", "ODD": "{{ .Vars.odd }}", "A": ""}},
			"A=\nODD=\"a \\\"b\\\" \\$c \\`d\\` \\\\ e\\nf#\"\nROLE=web\n"},
		"json": {document.File{Kind: document.FileJSON, Template: map[string]any{"z": json.Number("1.50"), "a": []any{"<{{ .Vars.role }}>", nil}}},
			"{\n  \"a\": [\n    \"<web>\",\n    null\n  ],\n  \"z\": 1.50\n}\n"},
		"json, a string":       {document.File{Kind: document.FileJSON, Template: "{{ .Vars.role }}"}, "\"web\"\n"},
		"env, not an object":   {document.File{Kind: document.FileEnv, Template: "x"}, "-"},
		"env, not a string":    {document.File{Kind: document.FileEnv, Template: map[string]any{"A": true}}, "-"},
		"secret":               {document.File{Kind: document.FileSecret, Source: "x"}, "-"},
		"certificate":          {document.File{Kind: document.FileCertificate, Template: "x"}, "-"},
		"missing":              {document.File{Kind: document.FileString, Template: "{{ .Vars.none }}"}, "-"},
		"the nonce":            {document.File{Kind: document.FileString, Template: "{{ .Nonce }}"}, "-"},
		"too large":            {document.File{Kind: document.FileString, Template: strings.Repeat("x", MaxFile+1)}, "-"},
		"too large altogether": {document.File{Kind: document.FileJSON, Template: []any{strings.Repeat("x", MaxFile-1), "y"}}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := File("f", c.file, data())
			if (err != nil) != (c.want == "-") || (err == nil && string(got) != c.want) {
				t.Errorf("File = %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestStorageKey(t *testing.T) {
	for source, want := range map[string]string{
		"files/{{ .Vars.role }}/motd":  "files/web/motd",
		"files/{{ b64dec \"Li4v\" }}x": "-", // ../
		"{{ index .Vars \"role\" }}/x": "-",
		"/files/x":                     "-",
		"{{ index .Vars \"none\" }}":   "-",
		"files/{{ .Vars.none }}":       "-",
		strings.Repeat("files/", 1000): "-",
	} {
		got, err := StorageKey("f", document.File{Source: source}, data(), layout.FileSources{})
		if (err != nil) != (want == "-") || (err == nil && got != want) {
			t.Errorf("StorageKey(%.40s) = %q, %v; want %q", source, got, err, want)
		}
	}
	anywhere := layout.FileSources{Anywhere: true, Secrets: "keys/"}
	if got, err := StorageKey("f", document.File{Source: "images/x"}, data(), anywhere); err != nil || got != "images/x" {
		t.Errorf("anywhere: %q, %v", got, err)
	}
	for _, source := range []string{"secret/ca.key", "keys/ca.key", "instance/x", `{{ b64dec "c2VjcmV0" }}/ca.key`, `{{ printf "%s/" "keys" }}ca.key`} {
		if got, err := StorageKey("f", document.File{Source: source}, data(), anywhere); !errors.Is(err, layout.ErrReserved) {
			t.Errorf("S14: anywhere: StorageKey(%s) = %q, %v", source, got, err)
		}
	}
}

func TestCertificate(t *testing.T) {
	cert := document.Certificate{
		Kind: document.CertClient, CN: "system:node:{{ .Instance.ID }}", Organization: []string{"system:nodes", "{{ if .Instance.OnDemand }}x{{ end }}"},
		Country: []string{"NZ"}, DNS: []string{"{{ .Instance.Hostname }}"}, IP: []string{"{{ .Instance.IP4 }}", "{{ .Instance.IP6 }}"},
		URI: []string{"nstance://{{ .Vars.role }}"}, TTL: 24,
	}
	got, err := Certificate("kubelet.client", cert, data())
	if err != nil {
		t.Fatal(err)
	}
	if got.Subject.CommonName != "system:node:"+data().Instance.ID || !cmp.Equal(got.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("subject = %v", got.Subject)
	}
	want := Names{
		Subject: got.Subject, DNS: []string{"sample"}, IPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
		URIs: []*url.URL{{Scheme: "nstance", Host: "web"}}, TTL: 24 * time.Hour,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []document.Certificate{{CN: "{{ .Nonce }}"}, {IP: []string{"{{ .Vars.role }}"}}, {URI: []string{"{{ .Vars.odd }}"}}, {DNS: []string{"{{ .Image.debian }}"}}} {
		if names, err := Certificate("x", bad, data()); err == nil {
			t.Errorf("%+v = %+v, want an error", bad, names)
		}
	}
}

func TestSameForAll(t *testing.T) {
	for name, c := range map[string]struct {
		file document.File
		want bool
	}{
		"plain":            {document.File{Kind: document.FileString, Template: "x"}, true},
		"a variable":       {document.File{Kind: document.FileEnv, Template: map[string]any{"A": "{{ .Vars.role }}"}}, true},
		"the instance":     {document.File{Kind: document.FileEnv, Template: map[string]any{"A": "x", "B": "{{ .Instance.ID }}"}}, false},
		"deep":             {document.File{Kind: document.FileJSON, Template: []any{json.Number("1"), map[string]any{"a": []any{"{{ .Instance.ID }}"}}}}, false},
		"a key":            {document.File{Kind: document.FileStorage, Source: "files/{{ .Vars.role }}"}, true},
		"a key of its own": {document.File{Kind: document.FileStorage, Source: "files/{{ .Instance.ID }}"}, false},
		"broken":           {document.File{Kind: document.FileString, Template: "{{"}, false},
	} {
		if got := SameForAll(c.file); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add("{{ .Vars.role }}", "A", "env")
	f.Add("a b", "x y", "json")
	f.Fuzz(func(t *testing.T, text, key, kind string) {
		file := document.File{Kind: kind, Template: map[string]any{key: text}}
		out, err := File("f", file, data())
		if err != nil {
			return
		}
		switch kind {
		case document.FileJSON:
			if !json.Valid(out) {
				t.Errorf("not JSON: %q", out)
			}
		case document.FileEnv:
			if !strings.Contains(key, "\n") && strings.Count(string(out), "\n") != 1 {
				t.Errorf("more than one line: %q", out)
			}
		}
	})
}
