package processes_test

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
)

// broken is a configuration with one mistake in every line that is marked.
const broken = "testdata/broken.jsonc"

// place is where a message says that a problem is.
var place = regexp.MustCompile(`(?m)^\S+\.jsonc:(\d+):(\d+): \S+: \S`)

// markedLines returns the numbers of the lines in which the mistakes are.
func markedLines(t *testing.T) []int {
	t.Helper()
	f, err := os.Open(broken)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []int
	scanner := bufio.NewScanner(f)
	for n := 1; scanner.Scan(); n++ {
		if strings.HasSuffix(scanner.Text(), "// wrong") {
			lines = append(lines, n)
		}
	}
	if len(lines) < 20 {
		t.Fatalf("%s has %d mistakes, and should have 20", broken, len(lines))
	}
	return lines
}

// checkProblems compares the lines that a message names with the marked ones.
func checkProblems(t *testing.T, message string) {
	t.Helper()
	var lines []int
	for _, match := range place.FindAllStringSubmatch(message, -1) {
		line, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if want := markedLines(t); !slices.Equal(lines, want) {
		t.Errorf("problems in lines %v, and must be in %v:\n%s", lines, want, message)
	}
}

func readBroken(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(broken)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestF50_ValidateListsEveryProblem(t *testing.T) {
	t.Parallel()
	b := box.New(t)
	r := b.Admin("config", "validate", broken)
	if r.Code != 1 {
		t.Errorf("exit code %d, not 1", r.Code)
	}
	checkProblems(t, r.Out+r.Err)
}

func TestF50_FirstServeListsEveryProblemAndStartsNothing(t *testing.T) {
	t.Parallel()
	b := box.New(t)
	if err := os.MkdirAll(filepath.Dir(b.ConfigPath()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.ConfigPath(), []byte(readBroken(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.Serve("one")
	if code := p.Exit(t); code != 1 {
		t.Errorf("exit code %d, not 1", code)
	}
	checkProblems(t, p.Output())

	// Hidden files are the store's own, and the lock of the cache is how a server
	// makes sure that it is alone.
	var made []string
	err := filepath.WalkDir(b.Dir, func(path string, entry os.DirEntry, err error) error {
		hidden := strings.HasPrefix(entry.Name(), ".")
		if err == nil && !entry.IsDir() && !hidden && path != b.ConfigPath() && path != b.Path("cache-one", "lock") {
			made = append(made, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(made) > 0 {
		t.Errorf("it made %v", made)
	}
}

func TestS19_RunningServerKeepsItsLastGoodConfiguration(t *testing.T) {
	t.Parallel()
	b, p := up(t, 2)
	good := b.Config()
	before := b.Machines()

	b.SetConfig(readBroken(t))
	r := b.Admin("config", "refresh")
	if r.Code != 1 {
		t.Errorf("refresh with a broken configuration: exit code %d, not 1", r.Code)
	}
	checkProblems(t, r.Out+r.Err)
	stillServes(t, b, 2, before)

	// It survives the process too: there is a good copy beside the cache.
	p.Kill()
	p = b.Dev(2)
	b.Await("the server is back with the last good configuration", func() error { return b.Settled("web", 2, p.Started) })
	stillServes(t, b, 2, before)

	// A correction is taken as if nothing had been.
	corrected := strings.Replace(good, `"size": 2`, `"size": 3`, 1)
	if corrected == good {
		t.Fatalf("the configuration has no size 2:\n%s", good)
	}
	b.SetConfig(corrected)
	b.AdminOK("config", "refresh")
	b.Await("the corrected size is reached", func() error { return b.Settled("web", 3, time.Time{}) })

	// Without cache and without a good configuration there is nothing to go on with.
	p.Kill()
	b.SetConfig(readBroken(t))
	if err := os.RemoveAll(b.Path("cache")); err != nil {
		t.Fatal(err)
	}
	p = b.Dev(2)
	if code := p.Exit(t); code != 1 {
		t.Errorf("exit code %d, not 1", code)
	}
	checkProblems(t, p.Output())
	if n := len(b.Machines()); n != 3 {
		t.Errorf("%d machines run, not 3", n)
	}
}

func stillServes(t *testing.T, b *box.Box, size int, before []box.Machine) {
	t.Helper()
	if err := b.Settled("web", size, time.Time{}); err != nil {
		t.Error(err)
	}
	if now := b.Machines(); !slices.Equal(now, before) {
		t.Errorf("machines are %v, were %v", now, before)
	}
}
