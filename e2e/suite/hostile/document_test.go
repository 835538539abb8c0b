package hostile

import (
	"encoding/json"
	"strings"
	"testing"

	"nstance.dev/server/config/jsonc"
)

// document is a configuration as JSON, to be changed.
type document map[string]any

// document reads the configuration of the cluster.
func (w *world) document(t *testing.T) document {
	t.Helper()
	text, err := jsonc.Standard("config", []byte(w.Config()))
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// set puts a value at a path of names with slashes between them; what is missing on the way
// is made.
func (d document) set(path string, value any) {
	names := strings.Split(path, "/")
	at := map[string]any(d)
	for _, name := range names[:len(names)-1] {
		next, ok := at[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[name] = next
		}
		at = next
	}
	at[names[len(names)-1]] = value
}

func (d document) text(t *testing.T) string {
	t.Helper()
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
