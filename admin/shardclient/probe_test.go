package shardclient_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"nstance.dev/admin/shardclient"
	"nstance.dev/admin/shardclient/shardtest"
)

func TestProbesAreInTheOrderOfTheAddressesAndFollowStandbys(t *testing.T) {
	c := shardtest.NewCluster(t)
	id, err := shardclient.LoadIdentity(c.Identity(t, "default"), "", "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c.ListenAt(t, "s1", "a:1", shardtest.Standby{Leader: "c:1"})
	c.ListenAt(t, "s1", "c:1", &shardtest.Shard{})
	probes := shardclient.ProbeAll(t.Context(), shardclient.Target{Shard: "s1", Addresses: []string{"a:1", "b:1"}}, id, shardclient.Options{DialContext: c.Dial})
	if len(probes) != 3 {
		t.Fatalf("%+v", probes)
	}
	if p := probes[0]; p.Address != "a:1" || p.Role != shardclient.Standby || p.Leader != "c:1" || p.Err != nil {
		t.Errorf("the standby is %+v", p)
	}
	if p := probes[1]; p.Address != "b:1" || p.Role != "" || !errors.Is(p.Err, syscall.ECONNREFUSED) {
		t.Errorf("where nothing listens is %+v", p)
	}
	if p := probes[2]; p.Address != "c:1" || p.Role != shardclient.Leader || p.Info.GetTerm() != 7 {
		t.Errorf("the leader is %+v", p)
	}
}
