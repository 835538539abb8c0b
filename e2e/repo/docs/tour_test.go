package docs_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTheTour types the tour of docs/start.md into a shell, as far as one terminal reaches. What differs: the cluster
// is in a directory of the test, nobody presses Ctrl-C in the first terminal, and a list is looked at once.
func TestTheTour(t *testing.T) {
	t.Parallel() // a good part of it is waiting
	blocks := marked(t, "docs/start.md", "TestTheTour")
	if blocks[0] != "make dev\n" {
		t.Fatalf("the tour begins with %q", blocks[0])
	}
	blocks[0] = `bin/nstance-server-local dev --dir .dev --size 3 --plain > .dev/out.log 2>&1 &
until [ "$(bin/nstance-admin --context .dev/admin.json instance list 2>/dev/null | grep -c ' running ')" = 3 ]; do sleep 0.2; done
`
	dir := t.TempDir()
	script := "mkdir -p .dev/\n" + strings.Join(blocks, "") + "kill %1; wait\n"
	for was, is := range map[string]string{
		" --watch\n":                          "\n",
		"cat .dev/machines/dev*/recv/token\n": "until cat .dev/machines/dev*/recv/token; do sleep 0.2; done\n", // it travels for a moment
	} {
		if !strings.Contains(script, was) {
			t.Fatalf("the tour has no %q", was)
		}
		script = strings.ReplaceAll(script, was, is)
	}
	script = strings.NewReplacer(".dev/", dir+"/dev/", " .dev ", " "+dir+"/dev ").Replace(script)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	out, err := shell(ctx, script)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, logs(dir))
	}
	for _, want := range []string{"decided", "s3cr3t", " on-demand"} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "dev", "machines", "dev*", "pid")); err != nil || len(left) > 0 {
		t.Errorf("the tour leaves %v, %v", left, err)
	}
}
