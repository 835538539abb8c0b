package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"nstance.dev/e2e/env/box"
)

// documents are configurations that somebody else wrote, and that an administrator has
// checked before anything else.
func documents() (rows []attempt) {
	for _, d := range longDocuments {
		rows = append(rows, attempt{"S22", d.name, "answered", func(t *testing.T, _ *world) string {
			ctx, cancel := context.WithTimeout(t.Context(), answersWithin)
			defer cancel()
			if _, err := validate(t, ctx, d.text()); errors.Is(err, context.DeadlineExceeded) {
				return fmt.Sprintf("not answered within %v", answersWithin)
			}
			return "answered"
		}})
	}
	for _, d := range unprintable {
		rows = append(rows, attempt{"F50", d.name, "plain text", func(t *testing.T, _ *world) string {
			out, err := validate(t, call(t), d.text)
			if err != nil {
				return err.Error()
			}
			return plain(out)
		}})
	}
	return append(rows, attempt{"S26", "four thousand files of a template, more than an agent takes", "refused", func(t *testing.T, w *world) string {
		d := w.document(t)
		for i := range 4000 {
			d.set(fmt.Sprintf("templates/mute/files/file-%d", i), map[string]any{"kind": "string", "template": "x"})
		}
		out, err := validate(t, call(t), d.text(t))
		switch {
		case err != nil:
			return err.Error()
		case strings.Contains(out, "templates.mute.files"): // the path has the name of this row
			return "refused"
		}
		return out
	}})
}

// answersWithin is far more than any document takes whose work grows with its size, and far
// less than where it grows with the square of that.
const answersWithin = 90 * time.Second

// validate has the command line check a document, and returns what it prints.
func validate(t *testing.T, ctx context.Context, text string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.jsonc")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	admin := program(t, "nstance-admin")
	if *programs == "" {
		admin = box.Binary(t, "nstance-admin") // it has one goroutine: the race detector would see nothing, and take ten times as long
	}
	out, err := exec.CommandContext(ctx, admin, "config", "validate", path).CombinedOutput()
	if exit := (*exec.ExitError)(nil); ctx.Err() == nil && errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil // the document is not valid
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return string(out), err
}

// plain says whether a text has nothing in it that a terminal would obey or hide.
func plain(text string) string {
	for line := range strings.Lines(text) {
		for _, r := range strings.TrimSuffix(line, "\n") {
			if !unicode.IsPrint(r) {
				return fmt.Sprintf("%U in %q", r, line)
			}
		}
	}
	return "plain text"
}

// longDocuments take long to check where the work grows faster than the document.
var longDocuments = func() (all []struct {
	name string
	text func() string
}) {
	add := func(name string, text func() string) {
		all = append(all, struct {
			name string
			text func() string
		}{name, text})
	}
	// many writes a document with n members in the object at a path.
	many := func(path string, n int, member func(i int) any) func() string {
		return func() string {
			members := map[string]any{}
			for i := range n {
				members[fmt.Sprintf("n%d", i)] = member(i)
			}
			var doc any = members
			names := strings.Split(path, "/")
			for i := len(names) - 1; i >= 0; i-- {
				doc = map[string]any{names[i]: doc}
			}
			text, err := json.Marshal(doc)
			if err != nil {
				return err.Error()
			}
			return string(text)
		}
	}
	object := func(members map[string]any) func(int) any { return func(int) any { return members } }
	add("twenty thousand files of one template", many("templates/a/files", 20_000, object(map[string]any{"kind": "string", "template": strings.Repeat("x", 50)})))
	add("twenty thousand templates", many("templates", 20_000, object(map[string]any{"kind": "abc", "arch": "amd64", "instance_type": "x", "subnet_pool": "p"})))
	add("fifty thousand groups", many("groups/default", 50_000, object(map[string]any{"template": "a", "size": 1})))
	add("fifty thousand tenants", many("tenants", 50_000, object(map[string]any{})))
	add("twenty thousand certificates", many("certificates", 20_000, object(map[string]any{"kind": "client", "cn": "x"})))
	add("twenty thousand pools of subnets", many("server/subnet_pools", 20_000, func(i int) any { return []string{fmt.Sprint("s", i)} }))
	add("fifty thousand variables", many("templates/a/vars", 50_000, func(int) any { return "{{ .Instance.ID }}" }))
	add("a hundred thousand fields that nobody knows", many("server", 100_000, func(i int) any { return i }))
	add("a hundred thousand objects in each other", func() string {
		return strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	})
	add("a hundred thousand lists that are not closed", func() string { return strings.Repeat("[", 100_000) })
	add("seven megabytes of comments", func() string { return strings.Repeat("// x\n", 7<<20/5) + "{}" })
	add("seven megabytes of one comment that is not closed", func() string { return "{/*" + strings.Repeat("* /", 7<<20/3) })
	add("seven megabytes of one name", func() string { return `{"` + strings.Repeat("a", 7<<20) + `": 1}` })
	add("fifty megabytes", func() string { return `{"server": "` + strings.Repeat("a", 50<<20) + `"}` })
	add("a template in templates that are in each other", func() string {
		text, err := json.Marshal(strings.Repeat("{{ if .Vars }}", 10_000) + strings.Repeat("{{ end }}", 10_000))
		if err != nil {
			return err.Error()
		}
		return `{"templates": {"a": {"userdata": {"content": ` + string(text) + `}}}}`
	})
	return all
}()

// unprintable are documents with characters that a terminal obeys, where they come up in a
// message.
var unprintable = []struct{ name, text string }{
	{"a control character in a literal", "{\"server\": Ot\x01ago}"},
	{"an escape of the terminal in a literal", "{\"server\": \x1b[2J}"},
	{"an escape of the terminal in a name", "{\"ser\x1b[2Jver\": 1}"},
	{"an escape of the terminal in a text", "{\"server\": {\"shard\": \"a\x1b[2Jb\"}}"},
	{"a line break in a text", "{\"server\": {\"shard\": \"a\nb\"}}"},
	{"a carriage return in a name", "{\"ser\rver\": 1}"},
	{"a backspace in a literal", "{\"server\": tr\bue}"},
	{"a byte that is no UTF-8", "{\"server\": \xff}"},
	{"a byte that is no UTF-8 in a text", "{\"server\": {\"shard\": \"\xc3\x28\"}}"},
	{"an escaped escape of the terminal as a name", `{"ser\u001b[2Jver": 1}`},
	{"an escaped escape of the terminal as a shard", `{"server": {"shard": "a\u001b[2Jb"}}`},
	{"an escaped escape of the terminal as a group", `{"groups": {"default": {"a\u001b]0;x\u0007": {"template": "none"}}}}`},
	{"an escaped escape of the terminal as a template", `{"groups": {"default": {"a": {"template": "a\u001b[2Jb"}}}}`},
	{"an escaped line break as a tenant", `{"tenants": {"a\nb": {}}}`},
	{"an escaped line break as a file", `{"templates": {"a": {"files": {"a\nb": {"kind": "string"}}}}}`},
	{"an escaped line break as a duration", `{"server": {"request_timeout": "1\n2"}}`},
	{"a mark that turns the direction of writing", "{\"server\": {\"shard\": \"a\u202eb\"}}"},
	{"a mark that turns the direction of writing, as a name", `{"a\u202eb": 1}`},
	{"a letter without width as a tenant", `{"tenants": {"a\u200bb": {}}}`},
	{"a template that does not parse, with an escape of the terminal", `{"templates": {"a": {"userdata": {"content": "{{ \u001b[2J }}"}}}}`},
	{"a kind of a file with an escape of the terminal", `{"templates": {"a": {"files": {"x": {"kind": "\u001b[2J"}}}}}`},
	{"an address with an escape of the terminal", `{"server": {"bind": {"agent_addr": "127.0.0.1\u001b[2J:1"}}}`},
}
