//go:build kube

package operator_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"nstance.dev/e2e/env/kube"
)

// lasting is the testing.TB of something that the tests of the package share. What is made
// with it ends when all of them are over. Until then it speaks for the test that has it, one
// at a time.
type lasting struct {
	testing.TB      // the test that has it; nil when none has
	failed     bool // a test that had it, or an end of it
}

// whole is what all that lasts has in common.
var whole struct {
	ctx  context.Context
	root string // of directories

	mu     sync.Mutex // guards what is below, and failed of all that lasts
	ends   []func()
	failed bool // an end, or one of the tests
}

// tests are those of the package, and then the end of what they share.
type tests struct{ kube.Runner }

// Run implements [kube.Runner].
func (t tests) Run() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	root, err := os.MkdirTemp("", "kube-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(root)
	whole.ctx, whole.root = ctx, root
	flag.Parse()
	if err := flag.Set("test.parallel", "1000"); err != nil { // those who wait for a turn are in nobody's way
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := chooseTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := t.Runner.Run()
	for _, end := range slices.Backward(whole.ends) {
		end()
	}
	if whole.failed {
		return max(code, 1)
	}
	return code
}

func (l *lasting) Cleanup(end func()) {
	whole.mu.Lock()
	defer whole.mu.Unlock()
	whole.ends = append(whole.ends, end)
}

func (l *lasting) Context() context.Context { return whole.ctx }

// ArtifactDir returns a directory that stays if the tests' artifacts are to stay.
func (l *lasting) ArtifactDir() string {
	if keep := flag.Lookup("test.artifacts"); keep != nil && keep.Value.String() == "true" {
		return l.TB.ArtifactDir()
	}
	return l.TempDir()
}

func (l *lasting) TempDir() string {
	dir, err := os.MkdirTemp(whole.root, "")
	if err != nil {
		l.Fatal(err)
	}
	return dir
}

// pass ends the time that a test has it.
func (l *lasting) pass() {
	whole.mu.Lock()
	defer whole.mu.Unlock()
	l.failed, l.TB = l.failed || l.TB.Failed(), nil
	whole.failed = whole.failed || l.failed
}

func (l *lasting) Failed() bool {
	whole.mu.Lock()
	defer whole.mu.Unlock()
	return l.failed || l.TB != nil && l.TB.Failed() || l == &shared && whole.failed
}

func (l *lasting) Helper() {
	if l.TB != nil {
		l.TB.Helper()
	}
}

func (l *lasting) Log(args ...any) { l.Logf("%s", fmt.Sprintln(args...)) }

func (l *lasting) Logf(format string, args ...any) {
	if l.TB == nil {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
		return
	}
	l.TB.Helper()
	l.TB.Logf(format, args...)
}

func (l *lasting) Error(args ...any) { l.Errorf("%s", fmt.Sprintln(args...)) }

func (l *lasting) Errorf(format string, args ...any) {
	whole.mu.Lock()
	l.failed, whole.failed = true, true
	whole.mu.Unlock()
	l.Helper()
	l.Logf(format, args...)
	if l.TB != nil {
		l.TB.Fail()
	}
}

func (l *lasting) Fatal(args ...any) { l.Fatalf("%s", fmt.Sprintln(args...)) }

func (l *lasting) Fatalf(format string, args ...any) {
	l.Helper()
	l.Errorf(format, args...)
	if l.TB == nil {
		panic("what the tests shared cannot end")
	}
	l.TB.FailNow()
}
