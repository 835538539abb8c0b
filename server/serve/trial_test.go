package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/file"
	"nstance.dev/server/refusal"
)

func (b *boxed) path() string { return filepath.Join(b.bucket(), "config", testShard+".jsonc") }

func (b *boxed) config() string {
	b.t.Helper()
	text, err := os.ReadFile(b.path())
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// write replaces the stored configuration, past the store, as an editor would.
func (b *boxed) write(text string) {
	b.t.Helper()
	store, err := file.New(b.bucket())
	if err != nil {
		b.t.Fatal(err)
	}
	key := layout.ConfigKey(testShard)
	obj, err := store.Get(b.t.Context(), key)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := store.PutIfMatch(b.t.Context(), key, []byte(text), obj.ETag); err != nil {
		b.t.Fatal(err)
	}
}

// change replaces a part of the stored configuration.
func (b *boxed) change(from, to string) {
	b.t.Helper()
	text := b.config()
	if !strings.Contains(text, from) {
		b.t.Fatalf("the configuration has no %s:\n%s", from, text)
	}
	b.write(strings.Replace(text, from, to, 1))
}

func (b *boxed) provider() Provider {
	return Provider{Kind: "local", FreePorts: true, New: func(_ context.Context, s Settings) (driver.Driver, error) {
		if s.Options["dir"] == "/gone" {
			return nil, errors.New("no such directory")
		}
		return drivertest.New(drivertest.Options{}), nil
	}}
}

// server begins a server and returns it once it leads. What ends it, which is a stop
// if it is asked for, end returns.
func (b *boxed) server() (p *process, end func(stop bool) error) {
	b.t.Helper()
	serving := make(chan struct{}, 1)
	p = newProcess(Options{Flags: b.Flags(), Provider: b.provider(), Log: slog.New(slog.DiscardHandler),
		OnServing: func(context.Context, *Serving) { serving <- struct{}{} }})
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.run(ctx, outset{}) }()
	select {
	case err := <-done:
		cancel()
		b.t.Fatalf("the server ended: %v", err)
	case <-serving:
	}
	return p, func(stop bool) error {
		defer cancel()
		if stop {
			cancel()
		}
		return <-done
	}
}

// TestS26_ARefreshTriesWhatItChanges: what would end this server at its next start is
// refused before anything is answered, with the field and what helps.
func TestS26_ARefreshTriesWhatItChanges(t *testing.T) {
	b := newBox(t)
	good := b.config()
	p, end := b.server()
	defer func() {
		if err := end(true); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	}()
	before := p.server.shard.Static().ETag
	for name, tt := range map[string]struct{ from, to, field string }{
		"a prefix without the cluster's keys": {`"provider": "object-storage",`, `"provider": "object-storage", "prefix": "other/",`, "server.secrets"},
		"an encryption key that is gone":      {b.sealKey(), b.sealKey() + ".gone", "server.secrets"},
		"no encryption key any more":          {fmt.Sprintf(`"encryption_key": { "provider": "file", "source": %q }`, b.sealKey()), `"cache_ttl": "1s"`, "server.secrets"},
		"a driver that does not start":        {fmt.Sprintf(`"dir": %q`, b.Machines()), `"dir": "/gone"`, "server.provider"},
		"an address of another box":           {`"agent_addr": "127.0.0.1:0"`, `"agent_addr": "192.0.2.1:8994"`, "server.bind"},
	} {
		b.write(good)
		b.change(tt.from, tt.to)
		_, _, updated, err := p.server.config.Reload(t.Context())
		var refused *refusal.Error
		if updated || !errors.As(err, &refused) || refused.Reason != "CONFIG_NOT_APPLICABLE" || !strings.Contains(refused.Message, tt.field) {
			t.Errorf("%s: updated %t, %v; want CONFIG_NOT_APPLICABLE because of %s", name, updated, err, tt.field)
		}
		if etag, why := p.source.Rejected(); etag == "" || !strings.Contains(why, tt.field) {
			t.Errorf("%s: rejected is %q because of %q", name, etag, why)
		}
		if now := p.server.shard.Static().ETag; now != before || len(p.server.restarts) > 0 {
			t.Errorf("%s: etag %s, was %s; %d restarts", name, now, before, len(p.server.restarts))
		}
	}
	b.write(good)
	if _, _, _, err := p.server.config.Reload(t.Context()); err != nil {
		t.Errorf("the configuration of before: %v", err)
	}
	if etag, why := p.source.Rejected(); etag != "" {
		t.Errorf("still rejected: %s because of %s", etag, why)
	}
}

// runUntilServed runs a server as the program does until it leads, and returns what
// ended it otherwise.
func (b *boxed) runUntilServed() error {
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	served := false
	err := Run(ctx, Options{Flags: b.Flags(), Provider: b.provider(), Log: slog.New(slog.DiscardHandler),
		OnServing: func(context.Context, *Serving) { served = true; cancel() }})
	if served {
		return nil
	}
	return err
}

// TestS26_AColdStartGoesBackToTheLastGoodConfiguration: a configuration that is valid
// and with which nothing could be led does not keep a server from starting that has
// led with another one, wherever in the start it fails.
func TestS26_AColdStartGoesBackToTheLastGoodConfiguration(t *testing.T) {
	for name, edit := range map[string]func(b *boxed){
		"the authority's key is not found": func(b *boxed) {
			b.change(`"provider": "object-storage",`, `"provider": "object-storage", "prefix": "other/",`)
		},
		"the encryption key is gone":   func(b *boxed) { b.change(b.sealKey(), b.sealKey()+".gone") },
		"an address of another box":    func(b *boxed) { b.change(`"agent_addr": "127.0.0.1:0"`, `"agent_addr": "192.0.2.1:8994"`) },
		"the driver does not start":    func(b *boxed) { b.change(fmt.Sprintf(`"dir": %q`, b.Machines()), `"dir": "/gone"`) },
		"a later version does not fit": func(b *boxed) { b.change(`"size": 0`, `"size": -1`) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			if err := b.runUntilServed(); err != nil {
				t.Fatalf("first start: %v", err)
			}
			edit(b)
			if err := b.runUntilServed(); err != nil {
				t.Fatalf("start with the last good one: %v", err)
			}
			if err := os.RemoveAll(filepath.Join(b.Dir, "cache", "config")); err != nil {
				t.Fatal(err)
			}
			if err := b.runUntilServed(); err == nil {
				t.Error("it serves without a configuration that it can serve with")
			}
		})
	}
}

// TestS26_OnlyWhatWorkedIsKept: a copy is kept of what was led with, and not of what
// was only read.
func TestS26_OnlyWhatWorkedIsKept(t *testing.T) {
	b := newBox(t)
	if err := b.runUntilServed(); err != nil {
		t.Fatal(err)
	}
	good := b.config()
	b.change(b.sealKey(), b.sealKey()+".gone")
	if err := b.runUntilServed(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(b.Dir, "cache", "config", testShard+".jsonc"))
	if err != nil || string(kept) != good {
		t.Errorf("kept (%v):\n%s", err, kept)
	}
}

// TestS26_ConfiguredTimesAreThoseOfALease holds the limits of package checks to those of
// package lease.
func TestS26_ConfiguredTimesAreThoseOfALease(t *testing.T) {
	for timeout := time.Second; timeout <= 2*time.Hour; timeout = timeout*21/20 + 500*time.Millisecond {
		for _, d := range []time.Duration{timeout, timeout.Truncate(time.Second), lease.MinLease, lease.MaxLease, lease.MaxLease + time.Second} {
			text := strings.Replace(string(devConfig(t, 1)), `"leader_timeout": "5s"`, fmt.Sprintf(`"leader_timeout": %q`, d), 1)
			cfg, err := config.Load("f", []byte(text), config.LoadOptions{})
			e := document.Election{LeaderTimeout: document.Duration(d), FrequentInterval: document.Duration(d / 3), PeerInterval: document.Duration(500 * time.Millisecond)}
			if cfg != nil {
				e = cfg.Server.ShardElection
			}
			own := electorOptions(e, "a", "", lease.Addrs{}, nil).Validate()
			if (err == nil) != (own == nil) {
				t.Errorf("%v: the configuration says %v, the lease %v", d, err, own)
			}
		}
	}
}

func TestReload_startsAnewWhereItHasTo(t *testing.T) {
	b := newBox(t)
	p, end := b.server()
	b.change(`"size": 0`, `"size": 4`)
	b.change(fmt.Sprintf(`"dir": %q`, b.Machines()), `"dir": "/elsewhere"`)
	for range 2 { // the second before the restart, or while it begins
		prev, now, updated, err := p.server.config.Reload(t.Context())
		if !updated || err != nil || prev == now {
			t.Errorf("reload: updated %t, %v, etags %q and %q", updated, err, prev, now)
		}
	}
	if got := *p.server.shard.Static().Config.Groups["default"]["web"].Size; got != 0 {
		t.Errorf("size %d, want the one before until the restart, 0", got)
	}
	if err := end(false); !errors.Is(err, errRestart) {
		t.Errorf("the server ends with %v, want that it starts anew", err)
	}
}
