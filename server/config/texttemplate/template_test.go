package texttemplate

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

const nonce = "eyJhbGciOiJFZERTQSJ9.payload.signature"

func sample() Data {
	d := Sample(map[string]string{"role": "web", "quoted": `it's "so"`, "list": "a,b,c", "empty": ""}, map[string]string{"debian": "ami-1"})
	d.Nonce = nonce
	return d
}

func render(text string, scope Scope, limit int) (string, error) {
	t, err := Parse("userdata", text)
	if err != nil {
		return "", err
	}
	return t.Execute(sample(), scope, limit)
}

func TestExecute_functions(t *testing.T) {
	for text, want := range map[string]string{
		`plain`:                                                           "plain",
		`{{ .Vars.role }}-{{ .Var.role }}`:                                "web-web",
		`{{ .Image.debian }}`:                                             "ami-1",
		`{{ index .Vars "none" | default "x" }}`:                          "x",
		`{{ default "x" .Vars.role }}`:                                    "web",
		`{{ default "x" .Vars.empty }}`:                                   "x",
		`{{ quote .Vars.quoted }}`:                                        `"it's \"so\""`,
		`{{ squote .Vars.quoted }}`:                                       `'it'\''s "so"'`,
		`{{ "a\nb" | indent 2 }}`:                                         "  a\n  b",
		`{{ "a\nb" | nindent 2 }}`:                                        "\n  a\n  b",
		`{{ trim "  a " }}{{ upper "b" }}{{ lower "C" }}`:                 "aBc",
		`{{ "a.b.c" | replace "." "-" }}`:                                 "a-b-c",
		`{{ .Vars.list | split "," | join "+" }}`:                         "a+b+c",
		`{{ range split "," .Vars.list }}<{{ . }}>{{ end }}`:              "<a><b><c>",
		`{{ b64enc "hello" }} {{ b64dec "aGVsbG8=" }}`:                    "aGVsbG8= hello",
		`{{ toJson .Vars.quoted }}`:                                       `"it's \"so\""`,
		`{{ sha256sum "" }}`:                                              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		`{{ printf "%03d|%s" 7 .Vars.role }}`:                             "007|web",
		`{{ range $i := 3 }}{{ $i }}{{ end }}`:                            "012",
		`{{ define "x" }}[{{ . }}]{{ end }}{{ template "x" .Vars.role }}`: "[web]",
		`{{ if eq .Instance.Kind "smp" }}yes{{ else }}no{{ end }}`:        "yes",
	} {
		if got, err := render(text, Files, 1000); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestExecute_scopes(t *testing.T) {
	for _, c := range []struct {
		text  string
		scope Scope
		want  string // "-" for an error
	}{
		{"{{ .Nonce }}", Userdata, nonce},
		{"{{ .Nonce }}", Args, "-"},
		{"{{ .Nonce }}", Files, "-"},
		{"{{ .Nonce }}", Certificate, "-"},
		{"{{ .Instance.IP4 }}{{ .Instance.Hostname }}", Userdata, ""},
		{"{{ .Instance.IP4 }}", Args, ""},
		{"{{ .Instance.IP4 }}", Files, "192.0.2.1"},
		{"{{ .Instance.IP4 }}", Certificate, "192.0.2.1"},
		{"{{ .Image.debian }}", Args, "ami-1"},
		{"{{ .Image.debian }}", Certificate, "-"},
		{"{{ .Vars.none }}", Files, "-"},
		{"{{ .Instance.Name }}", Files, "-"},
		{"{{ .Secret }}", Userdata, "-"},
	} {
		got, err := render(c.text, c.scope, 1000)
		if (err != nil) != (c.want == "-") || (err == nil && got != c.want) {
			t.Errorf("%s in scope %d = %q, %v; want %q", c.text, c.scope, got, err, c.want)
		}
	}
}

func TestF51_refusedOrEnded(t *testing.T) {
	for name, text := range map[string]string{
		"endless loop":        `{{ range 1000000000000000 }}{{ end }}`,
		"nested loops":        `{{ range 100000 }}{{ range 100000 }}{{ end }}{{ end }}`,
		"endless recursion":   `{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`,
		"doubling recursion":  `{{ define "x" }}{{ template "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`,
		"loop in a call":      `{{ define "x" }}{{ range 1000000000000 }}{{ end }}{{ end }}{{ template "x" }}`,
		"large output":        `{{ range 90000 }}0123456789abcdef{{ end }}`,
		"doubling by print":   `{{ $x := "ab" }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}`,
		"doubling by printf":  `{{ $x := "ab" }}{{ range 60 }}{{ $x = printf "%s%[1]s" $x }}{{ end }}`,
		"doubling by replace": `{{ $x := "aa" }}{{ range 60 }}{{ $x = replace "a" "aa" $x }}{{ end }}`,
		"doubling by join":    `{{ $x := "a,b" }}{{ range 60 }}{{ $x = join $x (split "," "a,b,c,d") }}{{ end }}`,
		"doubling by js":      `{{ $x := "\\" }}{{ range 60 }}{{ $x = js $x }}{{ end }}`,
		"growing by b64enc":   `{{ $x := "abc" }}{{ range 90 }}{{ $x = b64enc $x }}{{ end }}`,
		"wide printf":         `{{ printf "%1000000d" 1 }}`,
		"star in printf":      `{{ printf "%*d" 1000000 1 }}`,
		"wide after percent":  `{{ printf "%%%5000d" 1 }}`,
		"wide indent":         `{{ indent 1000000 "a" }}`,
		"a secret by name":    `{{ secret "ca.key" }}`,
		"the environment":     `{{ env "HOME" }}`,
		"a file":              `{{ readFile "/etc/passwd" }}`,
		"a syntax error":      `{{ if }}`,
		"deep parentheses":    `{{ ` + strings.Repeat("(", 1<<20) + ` }}`,
		"a huge template":     strings.Repeat("x", MaxSource+1),
	} {
		t.Run(name, func(t *testing.T) {
			out, err := render(text, Userdata, 1<<20)
			if e := new(Error); !errors.As(err, &e) {
				t.Errorf("render = %d bytes, %v; want an Error", len(out), err)
			}
		})
	}
}

func TestExecute_errorsNameThePlaceAndHideTheNonce(t *testing.T) {
	for text, want := range map[string]string{
		"a\n{{ .Vars.none }}":                          `userdata: line 2: at <.Vars.none>: there is no "none"`,
		"{{ missing }}":                                `userdata: line 1: function "missing" not defined`,
		"{{ b64dec .Nonce }}":                          "",
		"{{ slice .Nonce 1000 }}":                      "",
		"{{ index .Nonce .Nonce }}":                    "",
		"{{ .Nonce.Field }}":                           "",
		"{{ call .Nonce }}":                            "",
		"{{ indent 1 .Nonce | index .Image }}{{ .X }}": "",
		"{{ join .Nonce .Nonce }}":                     "",
		"{{ lt .Nonce 1 }}":                            "",
		"{{ template .Nonce }}":                        "",
	} {
		_, err := render(text, Userdata, 1000)
		if err == nil || (want != "" && err.Error() != want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), nonce) {
			t.Errorf("%s: the nonce stands in %v", text, err)
		}
	}
}

func TestParse_references(t *testing.T) {
	p, err := Parse("x", `{{ .Image.a }}{{ index .Image "b-c" }}{{ with .Vars }}{{ range 2 }}{{ $.Vars.d }}{{ end }}{{ end }}{{ (index .Vars "e") }}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Images(), " ") + "|" + strings.Join(p.Vars(), " "); got != "a b-c|d e" {
		t.Errorf("references = %s", got)
	}
}

func TestExecute_concurrently(t *testing.T) {
	p, err := Parse("x", `{{ range 50 }}{{ $.Vars.role | upper }}{{ end }}`)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if out, err := p.Execute(sample(), Files, 1000); err != nil || len(out) != 150 {
					t.Errorf("Execute = %q, %v", out, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzExecute(f *testing.F) {
	for _, seed := range []string{
		`{{ .Vars.role | quote }}`, `{{ range $i, $e := split "," .Vars.list }}{{ $e }}{{ end }}`, `{{ define "x" }}{{ end }}{{ template "x" . }}`,
		`{{ printf "%-5s|%q" .Nonce .Instance }}`, `{{ with $x := index .Image "debian" }}{{ $x }}{{ else }}{{ break }}{{ end }}`, `{{ b64dec .Nonce }}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, scope := range []Scope{Userdata, Files} {
			out, err := render(text, scope, 4096)
			if len(out) > 4096 && strings.Contains(text, "{{") {
				t.Errorf("%d bytes of output", len(out))
			}
			if err != nil && strings.Contains(err.Error(), nonce) {
				t.Errorf("the nonce stands in %v", err)
			}
			if again, errAgain := render(text, scope, 4096); again != out || (err == nil) != (errAgain == nil) {
				t.Errorf("rendering twice: %q, %q", out, again)
			}
		}
	})
}

func TestNamesVars(t *testing.T) {
	for text, want := range map[string]bool{
		"plain":                                             true,
		"{{ .Vars.role }} {{ $.Var.zone }}":                 true,
		"{{ index .Vars \"a-b\" }}":                         true,
		"{{ .Instance.ID }} {{ .Image.x }}":                 true,
		"{{ with .Vars }}{{ .role }}{{ end }}":              false,
		"{{ range .Vars }}{{ . }}{{ end }}":                 false,
		"{{ index .Vars .Instance.Kind }}":                  false,
		"{{ printf \"%v %s\" .Vars \"role\" }}":             false,
		"{{ $x := .Var }}{{ $x.role }}":                     false,
		"{{ (.Vars).role }}":                                false,
		"{{ toJson . }}":                                    false,
		"{{ template \"x\" $ }}{{ define \"x\" }}{{ end }}": false,
	} {
		parsed, err := Parse("t", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.NamesVars(); got != want {
			t.Errorf("%s: names all that it sees: %t, want %t", text, got, want)
		}
	}
}

func TestSameForAll(t *testing.T) {
	for text, want := range map[string]bool{
		"plain":                                      true,
		"{{ .Vars.role }} {{ .Cluster.ID }}":         true,
		"{{ with .Vars }}{{ .role }}{{ end }}":       true,
		"{{ $x := .Vars.role }}{{ $x }}":             true,
		"{{ $.Provider.Zone | upper }}":              true,
		"{{ .Instance.ID }}":                         false,
		"{{ $.Instance.ID }}":                        false,
		"{{ with .Instance }}{{ .ID }}{{ end }}":     false,
		"{{ if eq .Instance.Kind \"x\" }}x{{ end }}": false,
		"{{ (.Instance).ID }}":                       false,
		"{{ printf \"%s\" (.Instance.ID) }}":         false,
		"{{ . }}":                                    false,
		"{{ $ }}":                                    false,
		"{{ index . \"Instance\" }}":                 false,
		"{{ $x := . }}{{ $x.Vars.role }}":            false,
		"{{ template \"x\" . }}{{ define \"x\" }}{{ .Instance.ID }}{{ end }}":     false,
		"{{ template \"x\" .Vars }}{{ define \"x\" }}{{ .role }}{{ end }}":        true,
		"{{ range .Vars }}{{ toJson . }}{{ end }}":                                false, // and would be safe
		"{{ define \"x\" }}{{ .Instance.ID }}{{ end }}{{ template \"x\" .Vars }}": false,
	} {
		parsed, err := Parse("t", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := parsed.SameForAll(); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
