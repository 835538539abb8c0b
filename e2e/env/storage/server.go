package storage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startBound is how long a server may take to answer, on a busy box.
const startBound = 90 * time.Second

// Server is a running server of object storage. Its methods belong to the test's
// own goroutine.
type Server struct {
	// Kind is what programs call this storage: s3 or gcs.
	Kind string

	// URL is where it answers, over HTTP.
	URL string

	t       testing.TB
	command func() *exec.Cmd
	cmd     *exec.Cmd
	output  bytes.Buffer
	env     []string
	create  func(ctx context.Context, bucket string) error
	buckets int
}

// Env returns what a program needs in its environment to use this server and
// nothing else of its kind, as NAME=VALUE. It holds the keys of this test only.
func (s *Server) Env() []string { return s.env }

// Setenv makes the environment of the test itself that of Env.
func (s *Server) Setenv(t *testing.T) {
	t.Helper()
	for _, pair := range s.env {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
}

// NewBucket makes an empty bucket and returns its name.
func (s *Server) NewBucket(t testing.TB) string {
	t.Helper()
	s.buckets++
	name := fmt.Sprintf("nstance-test-%d", s.buckets)
	if err := s.create(t.Context(), name); err != nil {
		t.Fatalf("make bucket %s: %v", name, err)
	}
	return name
}

// Kill ends the server as a crash does, and waits for its end.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // an error means that it has ended
	_ = s.cmd.Wait()         // killed is no success
}

// Start starts the server again, at the same address, and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	s.cmd = s.command()
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.await(); err != nil {
		s.Kill()
		s.t.Fatalf("%s does not answer: %v\n%s", s.cmd, err, &s.output)
	}
}

// Freeze stops the server, which keeps what it holds and its connections, until the
// returned function lets it go on.
func (s *Server) Freeze() (thaw func()) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP) // an error means that it has ended
	return func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
}

// Crash ends the server until the returned function starts it again.
func (s *Server) Crash() (restart func()) {
	s.Kill()
	return s.Start
}

// run starts s for the first time, and ends it with the test.
func (s *Server) run() *Server {
	s.t.Helper()
	s.Start()
	s.t.Cleanup(func() {
		s.Kill()
		if s.t.Failed() {
			s.t.Logf("output of %s:\n%s", s.cmd, &s.output)
		}
	})
	return s
}

// await asks until there is an answer, whatever it says.
func (s *Server) await() error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	ctx, cancel := context.WithTimeout(s.t.Context(), startBound)
	defer cancel()
	for {
		resp, err := client.Get(s.URL)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			return resp.Body.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("within %v: %w", startBound, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// binary returns the path of a server's binary.
func binary(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.work above the working directory")
		}
	}
	path := filepath.Join(dir, "bin", "tools", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build it with `make storage-servers`", err)
	}
	return path
}

// freePort returns the number of a port that nobody listens on at an address.
func freePort(t testing.TB, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}
