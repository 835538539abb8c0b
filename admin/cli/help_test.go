package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"nstance.dev/admin/cli"
)

// The help of every command is looked at when it changes.
func TestHelpPages(t *testing.T) {
	dir := filepath.Join("testdata", "help")
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // it is committed
			t.Fatal(err)
		}
	}
	pages := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".txt"
		pages[name] = true
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			c := newConsole(t)
			golden(t, filepath.Join("help", name), c.ok(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...))
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(cli.NewRootCommand(&cli.Env{}))
	if len(pages) < 60 {
		t.Errorf("there are only %d commands", len(pages))
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !pages[path] {
			t.Errorf("%s is the help of no command (-update removes it)", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
