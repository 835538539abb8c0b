//go:build storage

package storage_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/storage"
	"nstance.dev/providers/local/dev"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
)

// servingBound is how long a server may take to lead, on a busy box.
const servingBound = time.Minute

// A server finds its configuration in the bucket, leads there, gives the lock back
// when it stops, and says what its storage lacks.
func TestAServerLeadsWithItsStateInABucket(t *testing.T) {
	for _, tt := range []struct {
		start func(testing.TB) *storage.Server
		warns bool
	}{{storage.S3, false}, {storage.GCS, true}} {
		server := tt.start(t)
		t.Run(server.Kind, func(t *testing.T) {
			server.Setenv(t)
			name := server.NewBucket(t)
			store := openBucket(t, server, name)
			putConfig(t, store)
			log := runServer(t, "--storage", server.Kind, "--bucket", name, "--prefix", "env", "--id", "server-1")
			leads := func(d lease.Document) bool { return d.LeaderID == "server-1" && !d.Released }
			awaitLock(t, store, log, leads)
			log.stop(t)
			awaitLock(t, store, log, func(d lease.Document) bool { return d.Released })
			if warned := strings.Contains(log.String(), "ignores conditions on deletes"); warned != tt.warns {
				t.Errorf("a warning about deletions: %v, want %v\n%s", warned, tt.warns, log)
			}
		})
	}
}

func putConfig(t *testing.T, store objectstore.Store) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "encryption.key")
	if err := os.WriteFile(key, []byte("hex:"+strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := dev.Config(dev.ConfigOptions{MachinesDir: t.TempDir(), EncryptionKeyFile: key, Arch: runtime.GOARCH, Userdata: "#!/bin/sh\n"})
	if err != nil {
		t.Fatal(err)
	}
	// The shortest lease that every kind of storage is granted.
	text = bytes.ReplaceAll(text, []byte(`"leader_timeout": "5s"`), []byte(`"leader_timeout": "10s"`))
	if _, err := store.PutIfAbsent(t.Context(), layout.ConfigKey(box.Shard), text); err != nil {
		t.Fatal(err)
	}
}

// running is a server process; its log may be read once it has stopped.
type running struct {
	bytes.Buffer
	cmd *exec.Cmd
}

func runServer(t *testing.T, args ...string) *running {
	t.Helper()
	args = append([]string{"serve", "--shard", box.Shard, "--cachedir", t.TempDir()}, args...)
	r := &running{cmd: exec.Command(box.Binary(t, "nstance-server-local"), args...)}
	r.cmd.Stdout, r.cmd.Stderr = &r.Buffer, &r.Buffer
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		}
	})
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Fatalf("the server ended with %v\n%s", err, r)
	}
}

// awaitLock waits until the lock of the shard is as wanted.
func awaitLock(t *testing.T, store objectstore.Store, r *running, wanted func(lease.Document) bool) {
	t.Helper()
	for deadline := time.Now().Add(servingBound); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		o, err := store.Get(t.Context(), layout.LeaderKey(box.Shard))
		if err != nil {
			continue
		}
		if d, err := lease.Decode(o.Data); err == nil && wanted(d) {
			return
		}
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	t.Fatalf("the lock is not as wanted after %v\n%s", servingBound, r)
}
