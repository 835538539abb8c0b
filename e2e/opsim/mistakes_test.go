//go:build !race

package opsim_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A mistake is a version of the operator that breaks a promise. The seeds and stories have
// to find each: a check that cannot find its own proves nothing about the version without.
type mistake struct {
	name    string
	promise string // that is found broken
	edits   []edit
}

// edit replaces a text that occurs once in a file of the repository.
type edit struct{ file, old, new string }

var mistakes = []mistake{
	{"a group is asked for one more than was wanted", "S5", []edit{{
		"operator/controllers/shardgroup/request.go", `	size := p.size()
`, `	size := p.size() + 1
`,
	}}},
	{"a group gets smaller with every machine that is deleted", "S5", []edit{{
		"operator/controllers/machine/act.go", `DecrementSize: a.Decrement,`, `DecrementSize: true,`,
	}}},
	{"an id leaves the list before its instance", "S6", []edit{{
		"operator/controllers/pool/mirror.go", `		ids = append(ids, part.Status.ProviderIDs...)
`, `		ids = append(ids, part.Status.ProviderIDs[:min(int(part.Spec.Size), len(part.Status.ProviderIDs))]...)
`,
	}}},
	{"machines go that nobody named", "S8", []edit{{
		"operator/controllers/machine/decide.go", `	case d.gone():
		d.ended()
	case m.Spec.Mode`, `	case d.gone() || d.o.Node != nil:
		d.ended()
	case m.Spec.Mode`,
	}}},
	{"the acknowledgement comes before the drain is done", "S20", []edit{{
		"operator/drain/phases.go", `	case d.Counts.Left == 0:
		d.detach()
	case d.past(s.Deadline):`, `	case d.Counts.Left < 3:
		d.detach()
	case d.past(s.Deadline):`,
	}}},
	{"Pods are deleted past their budget", "S20", []edit{{
		"operator/drain/phases.go", `d.past(ForcePoint(s.StartedAt, s.Deadline))`, `d.past(s.StartedAt)`,
	}}},
}

// overlay writes a file for go's -overlay that makes the edits, and fails loudly where a
// text is not there any more.
func overlay(t *testing.T, edits []edit) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, replace, texts := t.TempDir(), map[string]string{}, map[string][]byte{}
	for _, e := range edits {
		path := filepath.Join(root, e.file)
		if texts[path] == nil {
			if texts[path], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if n := bytes.Count(texts[path], []byte(e.old)); n != 1 {
			t.Fatalf("%s has the text that the mistake replaces %d times, want once; fit the mistake to the code:\n%s", e.file, n, e.old)
		}
		texts[path] = bytes.Replace(texts[path], []byte(e.old), []byte(e.new), 1)
	}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, filepath.Base(filepath.Dir(path))+"_"+filepath.Base(path))
		if err := os.WriteFile(replace[path], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMistakesCompile checks that every mistake still fits the code and compiles; whether
// each is found is the business of make sim-mistakes.
func TestMistakesCompile(t *testing.T) {
	var all []edit
	for _, m := range mistakes {
		all = append(all, m.edits...)
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", overlay(t, all), "../../operator/controllers/...").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
