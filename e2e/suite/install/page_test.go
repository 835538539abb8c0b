package install_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/suite/install"
)

func TestSection_itsBlocks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# Page\n```sh\nzero\n```\n## One\n```sh\n# a comment\none\n```\n### Deeper\n```yaml\na: 1\n```\n```sh\ntwo\n```\n## Two\n```sh\nthree\n```\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	section, err := install.Section(page, "One")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"# a comment\none\n", "two\n"}, install.Blocks(section, "sh")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a: 1\n"}, install.Blocks(section, "yaml")); diff != "" {
		t.Error(diff)
	}
	if _, err := install.Section(page, "Three"); err == nil {
		t.Error("a section that is not there is found")
	}
}
