package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nstance.dev/e2e/env/box"
)

// program finds a call of one of our programs in a line of a page, with everything
// that follows it.
var program = regexp.MustCompile(`(?:^|[\s(` + "`" + `])(?:bin/)?(nstance-admin|nstance-server-local)((?: [^` + "`" + `()|;&#]*)?)`)

var (
	word = regexp.MustCompile(`^[a-z][a-z-]*$`)
	flag = regexp.MustCompile(`^(--[a-z][a-z-]*|-[a-z])(=.*)?$`)
)

// call is one command of a page.
type call struct {
	page, program string
	words, flags  []string
}

func TestCommandsInThePagesExist(t *testing.T) {
	calls := callsIn(t, filepath.Join("..", "..", ".."))
	if len(calls) < 20 {
		t.Fatalf("only %d commands found: the test looks in the wrong place", len(calls))
	}
	helps := map[string]string{}
	for _, c := range calls {
		key := c.program + " " + strings.Join(c.words, " ")
		help, ok := helps[key]
		if !ok {
			help = helpOf(t, c)
			helps[key] = help
		}
		if strings.Contains(help, " [command]\n") {
			t.Errorf("%s: %s: there is no such command", c.page, key)
			continue
		}
		for _, name := range c.flags {
			if !slices.Contains(strings.FieldsFunc(help, notInAFlag), name) {
				t.Errorf("%s: %s has no flag %s", c.page, key, name)
			}
		}
	}
}

func notInAFlag(r rune) bool { return r != '-' && (r < 'a' || r > 'z') }

// helpOf returns what a command says about itself. For a command that does not
// exist that is the text of the one above it, which has commands below.
func helpOf(t *testing.T, c call) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), box.Binary(t, c.program), append(slices.Clone(c.words), "--help")...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %s %s --help: %v\n%s", c.page, c.program, strings.Join(c.words, " "), err, out)
	}
	return string(out)
}

// callsIn collects the calls in the code of all pages.
func callsIn(t *testing.T, root string) []call {
	t.Helper()
	var calls []call
	for _, page := range pagesOfReaders(t, root) {
		data, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "\\\n", " ") // a command over two lines
		for line := range strings.Lines(text) {
			for _, found := range program.FindAllStringSubmatch(line, -1) {
				if c, ok := parse(found[1], found[2]); ok {
					c.page = page
					calls = append(calls, c)
				}
			}
		}
	}
	return calls
}

// parse reads the commands and flags of a call, as far as they are no arguments or
// placeholders. Running text that only names the program gives none.
func parse(program, rest string) (call, bool) {
	c := call{program: program}
	commands := true
	for _, field := range strings.Fields(rest) {
		field = strings.Trim(field, "[].,:")
		switch {
		case flag.MatchString(field):
			name, _, _ := strings.Cut(field, "=")
			c.flags = append(c.flags, name)
			commands = false
		case commands && word.MatchString(field) && len(c.words) < depth(c.words):
			c.words = append(c.words, field)
		default:
			commands = false
		}
	}
	return c, len(c.words) > 0 && known[c.words[0]]
}

// known are the first words of commands; anything else after a program's name is
// running text.
var known = map[string]bool{
	"group": true, "instance": true, "demand": true, "shard": true, "tenant": true, "config": true, "cluster": true, "token": true,
	"machine": true, "mcfg": true, "operation": true, "watch": true, "events": true, "whoami": true, "doctor": true, "support-bundle": true,
	"version": true, "completion": true, "serve": true, "console": true, "dev": true,
}

// depth is how many words name a command that begins so; the rest are arguments.
func depth(words []string) int {
	if len(words) > 0 && slices.Contains([]string{"version", "serve", "dev", "events", "whoami", "doctor", "support-bundle", "console"}, words[0]) {
		return 1
	}
	if len(words) > 1 && (words[0] == "cluster" && slices.Contains([]string{"secret", "hostlog"}, words[1]) || words[0] == "shard" && words[1] == "config") {
		return 3
	}
	return 2
}

// pagesOfReaders are the pages with commands, as paths from the root: those at the root and in docs.
func pagesOfReaders(t *testing.T, root string) []string {
	t.Helper()
	var pages []string
	for _, place := range []string{".", "docs"} {
		err := fs.WalkDir(os.DirFS(root), place, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && place == "." && entry.IsDir() && name != "." {
				return fs.SkipDir
			}
			if strings.HasSuffix(name, ".md") && path.Base(name) != "texts.md" { // that is a list of what programs say
				pages = append(pages, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pages
}
