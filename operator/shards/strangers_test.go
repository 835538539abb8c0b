package shards_test

import (
	"context"
	"crypto/tls"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestO2_SwappedAddressesChangeNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"), at("b", "b:1"))
		w.apply(at("a", "b:1"), at("b", "a:1"))
		for _, name := range []string{"a", "b"} {
			w.expect(name, shards.Unreachable, shards.ReasonIdentityMismatch)
			if _, err := w.shard(name).UpsertGroup(t.Context(), upsert("web", 1)); shards.ClassOf(err) != shards.Unavailable {
				t.Errorf("upsert: %v", err)
			}
			if n := w.Shard(name).Count("UpsertGroup"); n != 0 {
				t.Errorf("%s saw %d upserts", name, n)
			}
		}
		w.apply(at("a", "a:1"), at("b", "b:1"))
		w.expect("a", shards.Ready, "")
		w.expect("b", shards.Ready, "")
	})
}

func TestAServerMustSayThatItIsTheShard(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults shardtest.Faults
	}{{"another shard", shardtest.Faults{Shard: "z"}}, {"another cluster", shardtest.Faults{ClusterID: "z"}}} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Shard("a").Break(tt.faults)
				w.apply(at("a", "a:1"))
				w.expect("a", shards.Unreachable, shards.ReasonIdentityMismatch)
				if n := w.Shard("a").Count("ListGroups"); n != 0 {
					t.Errorf("it was asked for groups %d times", n)
				}
				w.Shard("a").Break(shardtest.Faults{})
				w.after(59 * time.Second)
				w.expect("a", shards.Ready, "")
				if n := w.Shard("a").Count("GetServerInfo"); n != 2 {
					t.Errorf("it was asked who it is %d times, want 2", n)
				}
			})
		})
	}
}

// During a failover, an address of another shard says less than the shard's own server.
func TestAMisplacedAddressSaysLittleWhileNobodyLeads(t *testing.T) {
	for _, addresses := range [][]string{{"b:1", "a:2"}, {"a:2", "b:1"}} {
		inWorld(t, func(t *testing.T, w *world) {
			w.Shard("a").ServeStandby("a:2", "")
			w.apply(at("a", addresses...))
			w.expect("a", shards.Connecting, "")
			w.Shard("a").Serve("a:2")
			w.after(5 * time.Second)
			w.expect("a", shards.Ready, "")
		})
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "gone:1", "b:1"))
		w.expect("a", shards.Unreachable, shards.ReasonIdentityMismatch)
	})
}

func TestAnotherAuthorityIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		other := shardtest.NewCluster(t)
		other.Shard("a").Serve("a:1")
		set := shards.NewSet(shards.Options{Cluster: w.ID, Tenant: tenant, Credentials: w.Operator(tenant), Sink: w.sink, Streams: w.sink.streams(), Dial: other.DialContext})
		set.Apply([]shards.Target{at("a", "a:1")})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_ = set.Run(ctx)
		if got := w.states["a"]; len(got) == 0 || got[len(got)-1].Reason != shards.ReasonAuthFailed || got[len(got)-1].Refused {
			t.Errorf("states %+v", got)
		}
		if n := other.Shard("a").Count("GetServerInfo"); n != 0 {
			t.Errorf("the stranger got %d calls", n)
		}
	})
}

// A server of the shard that rejects our certificate refuses us; a stranger, above, only pretends to be one.
func TestACertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ours := lax{shardtest.NewCluster(t).Operator(tenant), func(settings *tls.Config) { settings.RootCAs = w.Roots() }}
		set := shards.NewSet(shards.Options{Cluster: w.ID, Tenant: tenant, Credentials: ours, Sink: w.sink, Streams: w.sink.streams(), Dial: w.DialContext})
		set.Apply([]shards.Target{at("a", "a:1")})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_ = set.Run(ctx)
		if got := w.states["a"]; len(got) == 0 || got[len(got)-1].Reason != shards.ReasonAuthFailed || !got[len(got)-1].Refused {
			t.Errorf("states %+v", got)
		}
	})
}

// lax are credentials that leave out what a connection must insist on.
type lax struct {
	*shardtest.Operator
	relax func(*tls.Config)
}

func (l lax) ClientTLS(serverName string) *tls.Config {
	settings := l.Operator.ClientTLS(serverName)
	l.relax(settings)
	return settings
}

func TestLaxCredentialsReachNoStranger(t *testing.T) {
	for name, relax := range map[string]func(*tls.Config){
		"no name":          func(c *tls.Config) { c.ServerName = "" },
		"another name":     func(c *tls.Config) { c.ServerName = identity.ServerName("b", "example") },
		"no check":         func(c *tls.Config) { c.InsecureSkipVerify = true },
		"no roots":         func(c *tls.Config) { c.RootCAs = nil },
		"an older version": func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				creds := lax{w.Operator(tenant), relax}
				call := func(address string) (uint16, error) {
					cc, _, err := shards.Dial(address, identity.ServerName("a", w.ID), creds, w.DialContext)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = cc.Close() }()
					var from peer.Peer
					_, err = nstancev1.NewOperatorServiceClient(cc).GetServerInfo(t.Context(), &emptypb.Empty{}, grpc.Peer(&from))
					info, _ := from.AuthInfo.(credentials.TLSInfo)
					return info.State.Version, err
				}
				if _, err := call("b:1"); err == nil {
					t.Error("a server of another shard was called")
				}
				version, err := call("a:1")
				if name == "no roots" {
					if err == nil {
						t.Error("a server was trusted without roots")
					}
				} else if err != nil || version != tls.VersionTLS13 {
					t.Errorf("version %x: %v", version, err)
				}
			})
		})
	}
}

func TestS12_WhatBelongsToOthersIsDropped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.statuses()
		w.Shard("a").Send(tenant, &nstancev1.InstanceEvent{InstanceId: "x", Tenant: "other", Status: "deleted"})
		synctest.Wait()
		if got := w.statuses(); got != nil || w.foreign != 1 {
			t.Errorf("events %v, %d dropped", got, w.foreign)
		}
	})
}

func TestS12_AnswersAboutOthersAreDropped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 1})
		id := w.Shard("a").Instances(tenant, "web")[0].GetInstanceId()
		w.Shard("a").Break(shardtest.Faults{Tenant: "other"})
		w.apply(at("a", "a:1"))
		if groups, instances := w.groups["a"].Groups, w.instancesOf("a").Instances; len(groups) != 0 || len(instances) != 0 {
			t.Errorf("listed %v and %v", groups, instances)
		}
		if got, err := w.shard("a").UpsertGroup(t.Context(), upsert("web", 1)); got != nil || shards.ClassOf(err) != shards.Broken {
			t.Errorf("upsert: %v, %v", got, err)
		}
		if got, err := w.shard("a").GetInstanceStatus(t.Context(), id); got != nil || shards.ClassOf(err) != shards.Broken {
			t.Errorf("instance: %v, %v", got, err)
		}
		if w.foreign != 4 {
			t.Errorf("%d counted, want 4", w.foreign)
		}
		if g := w.Shard("a").Group(tenant, "web"); g.GetTenant() != tenant {
			t.Errorf("the fake spoilt its own group: %v", g)
		}
	})
}
