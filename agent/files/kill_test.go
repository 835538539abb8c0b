package files_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/files"
)

// envCommitter makes the test's own program commit one version after another in the
// directory that it names, until somebody kills it.
const envCommitter = "TEST_COMMIT_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envCommitter); dir != "" {
		fmt.Fprintln(os.Stderr, commitForever(dir))
		return
	}
	m.Run()
}

// inUse are the files that change together.
var inUse = []string{"a.env", "b.json", "c.txt", "d.txt", "e.txt"}

func hashPath(dir string) string { return filepath.Join(dir, "config.hash") }

func openIn(dir string) (*files.Store, error) {
	return files.Open(files.Options{
		Dir: filepath.Join(dir, "recv"), Mode: 0o640, DirMode: 0o750,
		StoreHash: func(hash string) error { return durable.WriteFile(hashPath(dir), []byte(hash), 0o600) },
	})
}

func commitForever(dir string) error {
	s, err := openIn(dir)
	if err != nil {
		return err
	}
	for version := time.Now().UnixNano(); ; version++ {
		for _, name := range inUse {
			content := fmt.Sprint(version)
			if strings.HasSuffix(name, ".env") {
				content = "VERSION=" + content
			}
			if err := s.Stage(name, []byte(content), time.Now()); err != nil {
				return err
			}
		}
		if err := s.Commit(fmt.Sprint(version)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(os.Stdout, version); err != nil {
			return err
		}
	}
}

// A real process is killed at moments that nobody has chosen. What the next one finds is
// always one version, and the hash is that version's.
func TestAKilledAgentComesBackWithOneVersion(t *testing.T) {
	dir := t.TempDir()
	for round := range 8 {
		killWhileCommitting(t, dir)
		s, err := openIn(dir)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := os.ReadFile(hashPath(dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range inUse {
			content, err := os.ReadFile(filepath.Join(dir, "recv", name))
			if err != nil {
				t.Fatal(err)
			}
			if version := strings.TrimPrefix(string(content), "VERSION="); version != string(hash) {
				t.Errorf("round %d: %s is of version %s, the hash says %s", round, name, version, hash)
			}
		}
		for name, status := range s.Statuses() {
			if status.Error != "" || status.ModTime.IsZero() {
				t.Errorf("round %d: %s is reported as %+v", round, name, status)
			}
		}
	}
}

// killWhileCommitting kills a process when it has said of some number of commits that they
// are done.
func killWhileCommitting(t *testing.T, dir string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), envCommitter+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	commits := bufio.NewScanner(out)
	for range 1 + rand.IntN(10) {
		if !commits.Scan() {
			t.Errorf("the process ended by itself: %v", commits.Err())
			break
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // it was killed
}
