package cache_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/digest"
)

const envUser = "TEST_USE_CACHE_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envUser); dir != "" {
		fmt.Fprintln(os.Stderr, useForever(dir))
		return
	}
	m.Run()
}

// tight are options under which something has to go all the time.
func tight() cache.Options {
	opts := roomy()
	opts.MaxBytes = 150_000
	return opts
}

func use(ctx context.Context, c *cache.Cache, name string) error {
	b, err := put(ctx, c, name)
	if err != nil {
		return err
	}
	b.Close()
	r, err := build(ctx, c, name)
	if err != nil {
		return err
	}
	r.Close()
	return c.Trim(ctx, 0)
}

func useForever(dir string) error {
	ctx := context.Background()
	c, err := cache.Open(ctx, dir, tight())
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if err := use(ctx, c, names[n%len(names)]); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(os.Stdout, n); err != nil {
			return err
		}
	}
}

var names = strings.Split("abcdefgh", "")

// checkComplete opens the cache again: what it has is whole, and nothing else is there.
func checkComplete(t *testing.T, dir string) {
	t.Helper()
	c := open(t, dir, roomy())
	known := map[string]bool{}
	for _, name := range names {
		data, d := content(name)
		known[d.Hex()] = true
		r, err := c.FindRoot(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if r != nil {
			for _, file := range []string{"first", "second"} {
				if got, err := os.ReadFile(filepath.Join(r.Path(), file)); err != nil || !bytes.Equal(got, data) {
					t.Errorf("root %s: %s has %d bytes, %v", name, file, len(got), err)
				}
			}
		}
		if got, err := os.ReadFile(filepath.Join(dir, "blobs", d.Hex())); err == nil && digest.Of(got) != d {
			t.Errorf("blob %s has %d bytes and the wrong digest", name, len(got))
		}
	}
	for _, path := range list(t, dir) {
		parts := strings.Split(path, "/")
		if !known[strings.TrimSuffix(parts[1], ".part")] {
			t.Errorf("%s was left", path)
		}
	}
	if err := use(t.Context(), c, "a"); err != nil {
		t.Errorf("the cache cannot be used: %v", err)
	}
}

type crash struct{}

// The process ends before each step of its work in turn. Nothing after it runs, clean-ups
// after errors included.
func TestACrashBeforeAnyStepLeavesWhatIsComplete(t *testing.T) {
	for at := 0; ; at++ {
		dir := t.TempDir()
		var steps []string
		func() {
			defer func() {
				if p := recover(); p != nil && p != (crash{}) {
					panic(p)
				}
			}()
			c := open(t, dir, tight().WithSteps(func(step string) error {
				steps = append(steps, step)
				if len(steps) > at {
					panic(crash{})
				}
				return nil
			}))
			for _, name := range names {
				if err := use(t.Context(), c, name); err != nil {
					t.Fatal(err)
				}
			}
		}()
		checkComplete(t, dir)
		if len(steps) <= at { // the work came to its end
			checkOrder(t, steps)
			return
		}
	}
}

// checkOrder looks whether each thing was durable before what says that it is complete.
func checkOrder(t *testing.T, steps []string) {
	t.Helper()
	for _, want := range [][]string{
		{"sync blob", "rename blob", "sync blobs"}, {"sync root", "write seal", "sync roots"}, {"remove seal", "detach", "remove"},
	} {
		i := slices.Index(steps, want[0])
		if i < 0 || len(steps) < i+3 || !slices.Equal(steps[i:i+3], want) {
			t.Errorf("%q is not what happens: %q", want, steps)
		}
	}
}

// A real process is killed at moments that nobody has chosen.
func TestAKilledProcessLeavesWhatIsComplete(t *testing.T) {
	dir := t.TempDir()
	for range 8 {
		killWhileInUse(t, dir)
		checkComplete(t, dir)
	}
}

func killWhileInUse(t *testing.T, dir string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), envUser+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	rounds := bufio.NewScanner(out)
	for range 1 + rand.IntN(10) {
		if !rounds.Scan() {
			t.Errorf("the process ended by itself: %v", rounds.Err())
			break
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // it was killed
}
