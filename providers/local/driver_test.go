package local

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

func TestLeaderAddresses(t *testing.T) {
	d := emptyDriver(t)
	want := driver.Addresses{Registration: "127.0.0.1:1", Operator: "127.0.0.1:2", Agent: "127.0.0.1:3", Health: "127.0.0.1:4"}
	for range 2 {
		check(t, d.AssignLeaderNetwork(t.Context(), want))
	}
	data, err := os.ReadFile(filepath.Join(d.opts.Dir, "leader.json"))
	check(t, err)
	var got map[string]string
	check(t, json.Unmarshal(data, &got))
	if len(got) != 4 || got["registration"] != want.Registration || got["operator"] != want.Operator || got["agent"] != want.Agent || got["health"] != want.Health {
		t.Errorf("leader.json: %s", data)
	}
	check(t, d.ReleaseLeaderNetwork(t.Context()))
	if _, err := os.Stat(filepath.Join(d.opts.Dir, "leader.json")); err != nil {
		t.Errorf("after the release: %v", err)
	}
	if list, err := d.List(t.Context(), driver.Owner{Cluster: "dev", Shard: "local"}); err != nil || len(list) > 0 {
		t.Errorf("list: %v, %v", list, err)
	}
}

func TestLimits(t *testing.T) {
	d := emptyDriver(t)
	if got, want := d.Limits(), (driver.Limits{Calls: driver.Bucket{Rate: 200, Burst: 50}}); got != want || d.Lag() != time.Duration(0) {
		t.Errorf("limits %+v, lag %v; want %+v, 0", got, d.Lag(), want)
	}
	const id = identity.ID("knc068a3cp3thz5z2mv1gejwftabc")
	if got := d.ProviderURI(driver.Ref{InstanceID: id}); got != "nstance://local/"+string(id) {
		t.Errorf("URI %s", got)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for name, opts := range map[string]Options{
		"no dir":          {Agent: sleeper(t)},
		"no agent":        {Dir: t.TempDir(), Agent: "/nowhere/nstance-agent"},
		"agent is a dir":  {Dir: t.TempDir(), Agent: "/"},
		"default missing": {Dir: t.TempDir()},
	} {
		if d, err := New(opts); err == nil {
			d.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDefaultUserDataWritesNoArguments(t *testing.T) {
	for _, line := range strings.Split(DefaultUserData, "\n") {
		if strings.Contains(line, ".Nonce") && !strings.HasPrefix(strings.TrimSpace(line), "printf ") {
			t.Errorf("the nonce leaves the shell in %q", line)
		}
	}
}
