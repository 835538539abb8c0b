package docs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/repo/pages"
)

// languages are those of the blocks in pages. In the first two there is something to type.
var languages = []string{"sh", "console", "text", "yaml", "json", "jsonc", "go", "hcl", "ini", "mermaid"}

// TestEveryBlockIsRunOrChecked: each block of code says its language, and one with commands is run by the test that it names,
// or all of its commands are known, or it says why nobody runs it. What is known of commands is checked in any case.
func TestEveryBlockIsRunOrChecked(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	checker, err := pages.NewChecker(root, func(program string, args []string) (string, error) {
		out, err := exec.CommandContext(t.Context(), box.Binary(t, program), args...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, firstLine(out))
		}
		return string(out), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]int{}
	for _, page := range pagesOfReaders(t, root) {
		source, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := pages.Blocks(page, source)
		if err != nil {
			t.Error(err)
		}
		for _, block := range blocks {
			how, err := hold(root, checker, block)
			if err != nil {
				t.Errorf("%s: %v", block.Where(), err)
			}
			held[how]++
		}
	}
	t.Logf("blocks: %v", held)
	if held["run"] < 20 || held["checked"] < 40 {
		t.Errorf("blocks: %v: the test looks for the wrong thing", held)
	}
}

// hold says what keeps a block true.
func hold(root string, checker *pages.Checker, block pages.Block) (string, error) {
	switch {
	case block.Language == "":
		return "", errors.New("a block says its language: a fence with sh for commands, console for commands after $ with what they print, text for other text")
	case !slices.Contains(languages, block.Language):
		return "", fmt.Errorf("%s is none of the languages %s", block.Language, strings.Join(languages, ", "))
	case block.Language != "sh" && block.Language != "console":
		if strings.HasPrefix(block.Text, "$ ") {
			return "", errors.New("commands after $ are in a block of the language console")
		}
		return "shown", checker.Objects(block)
	}
	var open, wrong []error
	for _, err := range checker.Check(block) {
		if errors.Is(err, pages.ErrUnknown) || errors.Is(err, pages.ErrNothing) {
			open = append(open, err)
		} else {
			wrong = append(wrong, err)
		}
	}
	switch {
	case block.Mark.NotRun != "":
		return "not run", errors.Join(wrong...)
	case block.Mark.Test != "":
		return "run", errors.Join(append(wrong, reads(root, block))...)
	case len(open) > 0:
		return "", fmt.Errorf("say above the block which test runs it, or why none does: %w", errors.Join(append(wrong, open...)...))
	}
	return "checked", errors.Join(wrong...)
}

// reads demands that the test that a block names exists, and that its package reads the page.
func reads(root string, block pages.Block) error {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(block.Mark.Package), "*_test.go"))
	if err != nil {
		return err
	}
	var test, page bool
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		test = test || strings.Contains(string(text), "\nfunc "+block.Mark.Test+"(")
		base := path.Base(block.Page)
		page = page || strings.Contains(string(text), base+`"`) || strings.Contains(string(text), path.Base(path.Dir(block.Page))+`", "*.md"`)
	}
	switch {
	case !test:
		return fmt.Errorf("there is no %s in %s", block.Mark.Test, block.Mark.Package)
	case !page:
		return fmt.Errorf("no test in %s reads %s", block.Mark.Package, block.Page)
	}
	return nil
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line
}
