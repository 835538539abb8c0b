package configs_test

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/suite/configs"
	"nstance.dev/providers/local/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

var (
	number    = flag.Int("configs", 1000, "how many `configurations` are made")
	first     = flag.Uint64("first", 1, "the seed")
	processes = flag.Int("processes", 2, "how many of them are served by a real process")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newKeys makes the keys of cluster c.
func newKeys(t *testing.T) *pki.Keys {
	t.Helper()
	key, err := secrets.NewKey([]byte(strings.Repeat("k", secrets.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	objects := memory.New(memory.Options{})
	store, err := secrets.NewSealed(objects, "secret/", []secrets.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	// A fake clock begins long before now, and the authority has to be valid then too.
	opts := pki.Options{Create: true, Now: func() time.Time { return time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) }}
	ca, err := pki.EnsureCA(t.Context(), store, objects, "c", pki.CATemplate{TTL: 100 * 365 * 24 * time.Hour}, opts)
	if err != nil {
		t.Fatal(err)
	}
	private, err := pki.EnsureNonceKeys(t.Context(), store, opts)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := pki.NewNonceSigner(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &pki.Keys{Authority: pki.NewAuthority(ca, "c", time.Now, nil), Nonces: signer, Verifier: pki.NewNonceVerifier("c", private)}
}

// TestS26_WhatValidatesLeads: each random configuration is refused with a place, or a
// server leads with it.
func TestS26_WhatValidatesLeads(t *testing.T) {
	dir := t.TempDir()
	g := configs.New(*first, filepath.Join(dir, "machines"), filepath.Join(dir, "key"))
	keys := newKeys(t)
	tried, valid := map[string]int{}, map[string]int{}
	for n := range *number {
		d := g.Next(n)
		tried[d.How]++
		cfg, err := config.Load("f", []byte(d.Text), config.LoadOptions{Shard: "s", Storage: "file", Rules: &driver.Rules{Kind: d.Kind}})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("refused without a place: %v\n%s", err, d.Text)
			}
			continue
		}
		valid[d.How]++
		g.Keep(d)
		synctest.Test(t, func(t *testing.T) {
			if err := configs.Lead(t.Context(), cfg, keys); err != nil {
				t.Errorf("S26: valid (%s), and: %v\n%s", d.How, err, d.Text)
			}
		})
		if t.Failed() {
			return
		}
	}
	all := 0
	for _, how := range slices.Sorted(maps.Keys(tried)) {
		t.Logf("%-18s %6d made, %6d valid", how, tried[how], valid[how])
		all += valid[how]
	}
	t.Logf("%-18s %6d made, %6d valid", "all", *number, all)
	if all < *number/4 {
		t.Errorf("%d of %d are valid: a quarter is needed for the test to say anything", all, *number)
	}
}

// TestS26_WhatValidatesLeadsAsAProcess does the same with the program itself, for a few
// of those whose keys and directory are there.
func TestS26_WhatValidatesLeadsAsAProcess(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("hex:"+strings.Repeat("61", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := configs.New(*first, filepath.Join(dir, "machines"), key)
	served := 0
	for n := 0; served < *processes && n < 1000**processes; n++ {
		d := g.Next(n)
		text := strings.ReplaceAll(d.Text, `"shard": "s"`, `"shard": "`+box.Shard+`"`)
		cfg, err := config.Load("f", []byte(text), config.LoadOptions{Shard: box.Shard, Storage: "file", Rules: rules.New()})
		if err != nil || !possible(cfg, g.Dir, key) {
			continue
		}
		g.Keep(d)
		served++
		serve(t, strings.ReplaceAll(text, g.Dir, filepath.Join(t.TempDir(), "machines")))
	}
	if served < *processes {
		t.Errorf("%d were served, want %d", served, *processes)
	}
}

// possible reports whether what a configuration names is there: its keys, which a leader
// of the cluster makes, and its directory.
func possible(cfg *effective.Config, dir, key string) bool {
	s := cfg.Server
	return s.ClusterElection.Enabled && s.Provider.Options["dir"] == dir && s.Secrets.Provider == document.SecretsObjectStorage &&
		(s.Secrets.EncryptionKey == nil || s.Secrets.EncryptionKey.Source == key)
}

// serve has a server lead with a configuration.
func serve(t *testing.T, text string) {
	t.Helper()
	b := box.New(t)
	if err := os.MkdirAll(filepath.Dir(b.ConfigPath()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.ConfigPath(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(text)
		}
	})
	p := b.Serve("one")
	defer p.Kill()
	b.Await("a server that leads", func() error {
		if !strings.Contains(p.Output(), `"msg":"became shard leader"`) {
			return errors.New("it does not lead yet")
		}
		return nil
	})
}
