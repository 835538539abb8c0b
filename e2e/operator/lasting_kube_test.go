//go:build kube

package operator_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"nstance.dev/e2e/kube"
)

// lasting is the testing.TB of what the tests of the package share. What is made with it
// ends when all of them are over. Until then it speaks for the test that runs; of those
// there is one at a time.
type lasting struct {
	testing.TB // the test that runs; nil when all are over

	ctx    context.Context
	ends   []func()
	dirs   int
	root   string
	failed bool // one of the tests, or an end
}

// shared is what the tests of this package share.
var shared lasting

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
	shared.ctx, shared.root = ctx, root
	code := t.Runner.Run()
	shared.TB, shared.failed = nil, code != 0
	for _, end := range slices.Backward(shared.ends) {
		end()
	}
	if shared.failed {
		return max(code, 1)
	}
	return code
}

func (l *lasting) Cleanup(end func())       { l.ends = append(l.ends, end) }
func (l *lasting) Context() context.Context { return l.ctx }

// ArtifactDir returns a directory that stays if the tests' artifacts are to stay.
func (l *lasting) ArtifactDir() string {
	if keep := flag.Lookup("test.artifacts"); keep != nil && keep.Value.String() == "true" {
		return l.TB.ArtifactDir()
	}
	return l.TempDir()
}

func (l *lasting) TempDir() string {
	l.dirs++
	dir := fmt.Sprintf("%s/%d", l.root, l.dirs)
	if err := os.Mkdir(dir, 0o700); err != nil {
		l.Fatal(err)
	}
	return dir
}

func (l *lasting) Failed() bool { return l.failed || l.TB != nil && l.TB.Failed() }

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
	l.failed = true
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
