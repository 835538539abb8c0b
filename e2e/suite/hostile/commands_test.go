package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
)

// commands are documents that whoever looks at them with the command line suffers from.
func commands() (rows []attempt) {
	for _, r := range []struct{ name, text string }{
		{"a control character in a text", "{\"server\": {\"cluster_id\": \"Ot\x01ago\"}}"},
		{"an escape sequence in a text", "{\"server\": {\"cluster_id\": \"Ot\x1b[2Jago\"}}"},
		{"a line break in a text", "{\"server\": {\"cluster_id\": \"Ot\nago\"}}"},
		{"a carriage return in a name", "{\"server\": {\"Ot\rago\": 1}}"},
		{"an escape sequence in an unknown name", `{"ser\u001b[2Jver": {}}`},
		{"an escape sequence in a value", `{"server": {"shard": "\u001b[2J", "cluster_id": "dev", "provider": {"kind": "\u001b]0;x\u0007", "zone": "z"}}}`},
	} {
		rows = append(rows, attempt{"F50", r.name + " reaches the terminal", "printable", func(t *testing.T, w *world) string {
			out := w.Admin("config", "validate", w.write(t, r.text))
			text := out.Out + out.Err
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				if strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) || strings.HasPrefix(line, "ago") {
					return fmt.Sprintf("%q", text)
				}
			}
			if out.Code == 0 {
				return "valid"
			}
			return "printable"
		}})
	}
	return append(rows,
		attempt{"S21", "four thousand files of a template are valid", "refused", func(t *testing.T, w *world) string {
			d := w.document(t)
			for i := range 4000 {
				d.set(fmt.Sprintf("templates/mute/files/file-%d", i), map[string]any{"kind": "string", "template": "x"})
			}
			if out := w.Admin("config", "validate", w.write(t, d.text(t))); out.Code == 0 {
				return "valid: " + out.Out
			}
			return "refused"
		}},
		attempt{"S21", "a long document takes the time of its square", "it is linear", quadratic},
	)
}

// write puts a document into a file.
func (w *world) write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.jsonc")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// quadratic compares a document with one that is eight times as long: where the time grows
// with the square it is 64 times as much, and at most 8 times where it grows with the
// length. What the box does beside is in both; the shortest of three counts.
func quadratic(t *testing.T, w *world) string {
	document := func(templates int) string {
		d := w.document(t)
		form, err := json.Marshal(d["templates"].(map[string]any)["mute"])
		if err != nil {
			t.Fatal(err)
		}
		for i := range templates {
			d.set(fmt.Sprintf("templates/t-%d", i), json.RawMessage(form))
		}
		return w.write(t, d.text(t))
	}
	short, long := document(350), document(2800)
	took := map[string]time.Duration{}
	for range 3 {
		for _, path := range []string{short, long} {
			start := time.Now()
			if out := w.Admin("config", "validate", path); out.Code != 0 {
				return out.Out + out.Err
			}
			if d := time.Since(start); took[path] == 0 || d < took[path] {
				took[path] = d
			}
		}
		if took[long] < 24*took[short] {
			return "it is linear"
		}
	}
	return fmt.Sprintf("%v, and eight times as long %v", took[short], took[long])
}
