package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/e2e/env/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// count returns nil once a shard has that many running instances of a group, all of which
// have its name in their URI.
func count(ctx context.Context, c *shards.Cluster, shard, group string, want int) error {
	all, complete, err := c.Instances(ctx, shard)
	if err != nil {
		return err
	}
	running := 0
	for _, in := range all {
		if in.GetGroup() == group && in.GetStatus() == "running" && in.GetProviderUri() == "nstance://"+shard+"/"+in.GetInstanceId() {
			running++
		}
	}
	if !complete || running != want {
		return fmt.Errorf("%s: %d of %d run, complete: %t", shard, running, want, complete)
	}
	return nil
}

func TestCluster_shardsHaveTheirOwnMachines(t *testing.T) {
	c := shards.New(t, map[string]shards.Groups{"a": {"web": 2}, "b": {"web": 1}})
	check := func() error {
		return errors.Join(count(t.Context(), c, "a", "web", 2), count(t.Context(), c, "b", "web", 1))
	}
	await(t, "each shard has its machines", check)

	c.Kill("a")
	if err := count(t.Context(), c, "a", "web", 2); err == nil {
		t.Error("a server answers that has been killed")
	}
	c.Start("a")
	await(t, "they are still there after a crash", check)
	c.Stop("b")
	c.StartAnew("b")
	await(t, "and after the loss of a cache", check)
	if nonce := c.Nonce(shards.Tenant); strings.Count(nonce, ".") != 2 {
		t.Error("the nonce is no token")
	}
	if !strings.Contains(string(c.CA()), "BEGIN CERTIFICATE") {
		t.Error("the authority's certificate is none")
	}
}

func await(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for check() != nil {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, check())
		}
		time.Sleep(50 * time.Millisecond)
	}
}
