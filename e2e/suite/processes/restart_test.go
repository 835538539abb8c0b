package processes_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
)

// TestReload_AServerStartsAnewWhereItHasTo: a longer lease is read at a start alone.
// The process restarts by itself, and its machines do not notice. An address that
// this box does not have is refused, and everything stays as it is (S19, S26).
func TestReload_AServerStartsAnewWhereItHasTo(t *testing.T) {
	t.Parallel()
	b, p := up(t, 2)
	before := b.Machines()
	change := func(old, now string) {
		t.Helper()
		text := strings.Replace(b.Config(), old, now, 1)
		if text == b.Config() {
			t.Fatalf("the configuration has no %s:\n%s", old, text)
		}
		b.SetConfig(text)
	}
	lasts := func(seconds int) func() error {
		return func() error {
			doc, err := b.Lock()
			if err != nil || doc.Released || doc.LeaseSeconds != seconds {
				return fmt.Errorf("the lock is %+v (%w)", doc, err)
			}
			return b.Settled("web", 2, time.Time{})
		}
	}

	change(`"shard_election": { "leader_timeout": "5s" }`, `"shard_election": { "leader_timeout": "7s" }`)
	b.AdminOK("config", "refresh")
	b.Await("the new lease is in force", lasts(7))
	stillServes(t, b, 2, before)

	change(`"agent_addr": "127.0.0.1:8994"`, `"agent_addr": "192.0.2.1:8994"`)
	refused := b.Admin("config", "refresh")
	if text := refused.Out + refused.Err; refused.Code == 0 || !strings.Contains(text, "agent_addr") || !strings.Contains(text, "192.0.2.1") {
		t.Errorf("refresh ends with %d and says %s", refused.Code, text)
	}
	if err := lasts(7)(); err != nil {
		t.Errorf("a configuration that was refused has changed something: %v", err)
	}
	stillServes(t, b, 2, before)

	change(`"agent_addr": "192.0.2.1:8994"`, `"agent_addr": "127.0.0.1:8994"`)
	change(`"size": 2`, `"size": 3`)
	b.AdminOK("config", "refresh")
	b.Await("the corrected configuration is in force", func() error { return b.Settled("web", 3, time.Time{}) })
	if p.Ended() {
		t.Error("the process ended")
	}
	if doc, err := b.Lock(); err != nil || doc.LeaderID == "" {
		t.Errorf("the lock of %s: %+v, %v", box.Shard, doc, err)
	}
}

// TestReload_OnHangup: SIGHUP has a server read the configuration again.
func TestReload_OnHangup(t *testing.T) {
	t.Parallel()
	b := box.New(t)
	b.Configure(1, lease)
	b.Cluster("init", "--cluster-id", box.Cluster)
	b.Cluster("register-operator", "--output-dir", b.Identity())
	p := b.Serve("one")
	b.Await("the cluster is up", func() error { return b.Settled("web", 1, time.Time{}) })
	b.SetConfig(strings.Replace(b.Config(), `"size": 1`, `"size": 2`, 1))
	p.Signal(syscall.SIGHUP)
	b.Await("the new size is reached", func() error { return b.Settled("web", 2, time.Time{}) })
	if p.Ended() {
		t.Error("the process ended")
	}
}
