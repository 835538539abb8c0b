package docs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	// tour is the heading of the section of a provider's page that needs no account.
	tour        = regexp.MustCompile(`\n## Three machines without an? (account|cluster)\n`)
	shellBlock  = regexp.MustCompile("(?s)```sh\n(.*?)```")
	ourBinaries = regexp.MustCompile(`(?m)(^|[\s(])bin/`)
)

// TestToursOfTheProviders types what the pages of the providers say, line by line and
// nothing else, into a shell. Only the places differ: a directory of the test instead
// of .dev and bin, and an address of the box that nobody else uses.
func TestToursOfTheProviders(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "providers", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	toured := 0
	for _, page := range pages {
		script := scriptOf(t, page)
		if script == "" {
			continue
		}
		toured++
		address := fmt.Sprintf("127.%d.%d.%d:", 64+os.Getpid()>>8&63, os.Getpid()&255, toured)
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel() // a good part of a tour is waiting
			follow(t, script, address)
		})
	}
	if toured == 0 {
		t.Error("no page has a tour: the test looks in the wrong place")
	}
}

// scriptOf is what a page has its reader type; "" without a tour.
func scriptOf(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	at := tour.FindIndex(text)
	if at == nil {
		return ""
	}
	section, _, _ := strings.Cut(string(text[at[1]:]), "\n## ")
	var script strings.Builder
	for _, block := range shellBlock.FindAllStringSubmatch(section, -1) {
		script.WriteString(block[1])
	}
	return script.String()
}

// follow runs a tour at a loopback address of its own. It ends with three machines
// running and leaves nothing.
func follow(t *testing.T, script, address string) {
	dir := t.TempDir()
	script = strings.NewReplacer("127.0.0.1:", address, "$PWD/.dev/", dir+"/dev/", ".dev/", dir+"/dev/").Replace(script)
	script = ourBinaries.ReplaceAllString(script, "${1}"+dir+"/bin/")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := shell(ctx, script)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, logs(dir))
	}
	lists := strings.Split(out, "INSTANCE ")
	if running := strings.Count(lists[len(lists)-1], " running "); len(lists) < 3 || running != 3 {
		t.Errorf("the last of %d lists has %d running machines:\n%s", len(lists)-1, running, out)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "dev", "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("the tour leaves %v, %v", left, err)
	}
}

// shell runs a script at the root of the repository, and ends all that is left of it.
func shell(ctx context.Context, script string) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Stdout, cmd.Stderr = &out, &out
	// What `make build` has compiled is the same then, and need not be compiled again.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -tags=disable_grpc_modules -ldflags=-w")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = end, 10*time.Second
	err := cmd.Run()
	if cmd.Process != nil {
		if err := end(); err != nil && !errors.Is(err, syscall.ESRCH) {
			return out.String(), err
		}
	}
	return out.String(), err
}

// logs are the last lines of what the programs of a tour wrote.
func logs(dir string) string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(dir, "dev", "*", "*.log")) // the pattern is well formed
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		lines := strings.Split(string(text), "\n")
		fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(name), strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
	return all.String()
}
