package binding

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestF52_ValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"b1": true, "7": true, strings.Repeat("a", 64): true, "A-b_c": true,
		"": false, strings.Repeat("a", 65): false, "..": false, "a/b": false, "a.b": false, "-a": false, "_a": false,
		"a b": false, "a\n": false, "\u0430": false, "a%2f": false, "a\x00": false,
	} {
		if got := ValidID(id); got != want {
			t.Errorf("ValidID(%q) = %v", id, got)
		}
	}
}

func TestKindOf(t *testing.T) {
	for _, tt := range []struct {
		name, blob string
		want       Kind
		says       string
	}{
		{"a script", "#!/bin/sh\nexit 0\n", Script, ""},
		{"an interpreter with an argument", "#! /usr/bin/env bash\n", Script, ""},
		{"a script of one line", "#!/bin/true", Script, ""},
		{"a cloud-config", "#cloud-config\nruncmd: []\n", CloudConfig, ""},
		{"a cloud-config of another system", "#cloud-config\r\nruncmd: []\r\n", CloudConfig, ""},
		{"nothing", "", 0, "neither"},
		{"text", "kubeadm join\n", 0, "neither"},
		{"a blank line first", "\n#!/bin/sh\n", 0, "neither"},
		{"an archive", "#cloud-config-archive\n", 0, "neither"},
		{"an include", "#include\nhttps://example.com/\n", 0, "neither"},
		{"a program", "\x7fELF\x02\x01", 0, "neither"},
		{"a relative interpreter", "#!sh\n", 0, "absolute"},
		{"no interpreter", "#!\n", 0, "absolute"},
		{"a carriage return", "#!/bin/sh\r\n", 0, "carriage return"},
		{"a zero byte", "#!/bin/\x00sh\n", 0, "zero byte"},
		{"a long line", "#!/" + strings.Repeat("a", 300) + "\n", 0, "longer than 255"},
		{"one byte too many", "#!/bin/sh\n" + strings.Repeat("a", MaxBlob), 0, "at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := KindOf([]byte(tt.blob))
			if tt.says == "" {
				if got != tt.want || err != nil {
					t.Errorf("KindOf() = %v, %v", got, err)
				}
				return
			}
			if !errors.Is(err, ErrBlob) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one that says %q", err, tt.says)
			}
		})
	}
}

// What is not refused begins with one of the two, and no refusal quotes what it refuses (S14).
func FuzzS14_KindOf(f *testing.F) {
	f.Add([]byte("#!/bin/sh\n"))
	f.Add([]byte("#cloud-config\n"))
	f.Add([]byte("# cloud-config"))
	f.Add([]byte("#!\tmarked-secret-7c1\n"))
	f.Fuzz(func(t *testing.T, blob []byte) {
		kind, err := KindOf(blob)
		switch {
		case err == nil && kind == Script:
			if !bytes.HasPrefix(blob, []byte("#!")) {
				t.Fatalf("%q is a script", blob)
			}
		case err == nil:
			if kind != CloudConfig || !bytes.HasPrefix(blob, []byte("#cloud-config")) {
				t.Fatalf("%q is of kind %v", blob, kind)
			}
		case len(blob) > 30 && strings.Contains(err.Error(), string(blob[2:30])):
			t.Fatalf("the error quotes the blob: %v", err)
		}
	})
}

func TestNode(t *testing.T) {
	n := Node{
		Labels:        map[string]string{"nstance.dev/group": "web", "a": "", "node.kubernetes.io/instance-type": "m6i.large"},
		Taints:        []Taint{{"dedicated", "web", "NoSchedule"}, {"b", "", "NoExecute"}},
		StartupTaints: []Taint{{"cni.example.com/agent", "", "NoExecute"}, {"b", "", "NoExecute"}},
	}
	if err := n.Check(); err != nil {
		t.Fatal(err)
	}
	if got, want := n.LabelFlag(), "a=,node.kubernetes.io/instance-type=m6i.large,nstance.dev/group=web"; got != want {
		t.Errorf("labels %q, want %q", got, want)
	}
	if got, want := n.TaintFlag(), "b=:NoExecute,cni.example.com/agent=:NoExecute,dedicated=web:NoSchedule"; got != want {
		t.Errorf("taints %q, want %q", got, want)
	}
	if zero := (Node{}); zero.Check() != nil || zero.LabelFlag() != "" || zero.TaintFlag() != "" {
		t.Error("a Node without labels and taints is refused, or has some")
	}
}

func TestNodeCheck(t *testing.T) {
	many := map[string]string{}
	for i := range MaxLabels + 1 {
		many[fmt.Sprint("l", i)] = ""
	}
	for name, n := range map[string]Node{
		"a quote":               {Labels: map[string]string{"a": `"`}},
		"a line":                {Labels: map[string]string{"a": "b\nPATH=/tmp"}},
		"a separator":           {Labels: map[string]string{"a": "b,c=d"}},
		"a key of nothing":      {Labels: map[string]string{"": "b"}},
		"a prefix of nothing":   {Labels: map[string]string{"/a": "b"}},
		"two prefixes":          {Labels: map[string]string{"a/b/c": ""}},
		"a prefix in capitals":  {Labels: map[string]string{"A.example/b": ""}},
		"a long prefix":         {Labels: map[string]string{strings.Repeat("a.", 130) + "a/b": ""}},
		"a long value":          {Labels: map[string]string{"a": strings.Repeat("b", 64)}},
		"too many labels":       {Labels: many},
		"an unknown effect":     {Taints: []Taint{{"a", "", "NoWhere"}}},
		"no effect":             {StartupTaints: []Taint{{"a", "", ""}}},
		"a taint with a colon":  {Taints: []Taint{{"a", "b:NoExecute", "NoSchedule"}}},
		"too many taints":       {Taints: make([]Taint, MaxTaints), StartupTaints: make([]Taint, 1)},
		"a taint without a key": {Taints: []Taint{{"", "", "NoSchedule"}}},
	} {
		if err := n.Check(); !errors.Is(err, ErrNode) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestS14_NoLogHasTheBlob: nor what was printed.
func TestS14_NoLogHasTheBlob(t *testing.T) {
	const marked = "marked-secret-5f2b"
	j := Join{Binding: "b1", Blob: []byte("#!/bin/sh\n# " + marked)}
	r := Report{Binding: "b1", Action: Joining, State: Failed, ExitCode: 3, Output: []byte(marked), Error: "exit status 3"}
	var text strings.Builder
	slog.New(slog.NewTextHandler(&text, nil)).Info("joining", "join", j, "report", r, "pointer", &r)
	slog.New(slog.NewJSONHandler(&text, nil)).Info("joining", "join", j, "report", r, "pointer", &r)
	fmt.Fprintf(&text, "%v %+v %s %#v %v %v %+v %#v %v", j, j, j, j, &j, r, r, r, &r)
	if strings.Contains(text.String(), marked) || !strings.Contains(text.String(), "exit status 3") {
		t.Errorf("logged %s", text.String())
	}
	if err := (Join{Binding: "b1", Blob: []byte(marked)}).Check(); err == nil || strings.Contains(err.Error(), marked) {
		t.Errorf("error %v", err)
	}
}

func TestJoinCheck(t *testing.T) {
	good := Join{Binding: "b1", Blob: []byte("#!/bin/sh\n")}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Join){
		"a path":      func(j *Join) { j.Binding = "../b1" },
		"no blob":     func(j *Join) { j.Blob = nil },
		"a program":   func(j *Join) { j.Blob = []byte("\x7fELF") },
		"a big blob":  func(j *Join) { j.Blob = append(j.Blob, make([]byte, MaxBlob)...) },
		"a bad label": func(j *Join) { j.Node.Labels = map[string]string{"a": "b c"} },
	} {
		bad := good
		change(&bad)
		if bad.Check() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestLast(t *testing.T) {
	if got := Last(append(make([]byte, 100), bytes.Repeat([]byte("b"), MaxOutput)...)); len(got) != MaxOutput || got[0] != 'b' {
		t.Errorf("%d bytes", len(got))
	}
	if got := Last([]byte("a")); string(got) != "a" {
		t.Errorf("%q", got)
	}
}
