package shardclient_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/shardclient"
	"nstance.dev/admin/shardclient/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// connect returns a client of shard s1 that knows the given addresses.
func connect(t *testing.T, c *shardtest.Cluster, target shardclient.Target) nstancev1.OperatorServiceClient {
	t.Helper()
	id, err := shardclient.LoadIdentity(c.Identity(t, "default"), shardtest.ID, "default", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if target.Shard == "" {
		target.Shard = "s1"
	}
	conn := shardclient.Dial(target, id, shardclient.Options{DialContext: c.Dial})
	t.Cleanup(func() { _ = conn.Close() })
	return nstancev1.NewOperatorServiceClient(conn)
}

func keys(t *testing.T, api nstancev1.OperatorServiceClient) []string {
	t.Helper()
	response, err := api.ListGroups(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, g := range response.GetGroups() {
		keys = append(keys, g.GetKey())
	}
	return keys
}

func leader() *shardtest.Shard {
	s := &shardtest.Shard{}
	s.AddGroup(&nstancev1.GroupStatus{Key: "web", Size: 1})
	return s
}

func TestTheLeaderIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		standbys map[string]string // address and the leader that it names
		target   shardclient.Target
	}{
		"at the only address":          {target: shardclient.Target{Addresses: []string{"a:1"}}},
		"behind an address not in use": {target: shardclient.Target{Addresses: []string{"x:1", "a:1"}}},
		"by the trailer of a standby": {
			standbys: map[string]string{"b:1": "a:1"},
			target:   shardclient.Target{Addresses: []string{"b:1"}},
		},
		"behind a standby that knows of no leader": {
			standbys: map[string]string{"b:1": ""},
			target:   shardclient.Target{Addresses: []string{"b:1", "a:1"}},
		},
		"behind a standby whose leader has gone": {
			standbys: map[string]string{"b:1": "x:1"},
			target:   shardclient.Target{Addresses: []string{"b:1", "a:1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := shardtest.NewCluster(t)
				c.ListenAt(t, "s1", "a:1", leader())
				for address, names := range test.standbys {
					c.ListenAt(t, "s1", address, shardtest.Standby{Leader: names})
				}
				if got := keys(t, connect(t, c, test.target)); !slices.Equal(got, []string{"web"}) {
					t.Errorf("groups are %q", got)
				}
			})
		})
	}
}

func TestTheLeaderFileIsReadAtEveryDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		path := filepath.Join(t.TempDir(), "leader.json")
		write := func(address string) {
			data := `{"registration":"a:2","operator":"` + address + `","agent":"a:3","health":"a:4"}`
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stop := c.ListenAt(t, "s1", "a:1", leader())
		write("a:1")
		api := connect(t, c, shardclient.Target{Addresses: []string{"x:1"}, LeaderFile: path})
		keys(t, api)

		other := &shardtest.Shard{}
		other.AddGroup(&nstancev1.GroupStatus{Key: "other"})
		c.ListenAt(t, "s1", "b:1", other)
		stop()
		write("b:1")
		if got := keys(t, api); !slices.Equal(got, []string{"other"}) {
			t.Errorf("after the leader has moved the groups are %q", got)
		}
	})
}

func TestACallWaitsForAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		api := connect(t, c, shardclient.Target{Addresses: []string{"a:1"}})
		go func() {
			time.Sleep(7 * time.Second)
			c.ListenAt(t, "s1", "a:1", leader())
		}()
		start := time.Now()
		keys(t, api)
		if took := time.Since(start); took < 7*time.Second || took > 10*time.Second {
			t.Errorf("it took %v, and the server came after 7s", took)
		}
	})
}

func TestPatienceEndsWithTheAddressesThatWereTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		c.ListenAt(t, "s1", "b:1", shardtest.Standby{Leader: "x:1"})
		api := connect(t, c, shardclient.Target{Addresses: []string{"a:1", "b:1"}})
		start := time.Now()
		_, err := api.ListGroups(t.Context(), &emptypb.Empty{})
		if took := time.Since(start); took > 31*time.Second || took < 25*time.Second {
			t.Errorf("it took %v, must be about 30s", took)
		}
		unavailable, ok := errors.AsType[*shardclient.UnavailableError](err)
		if !ok || status.Code(err) != codes.Unavailable {
			t.Fatalf("error is %v", err)
		}
		var tried []string
		for _, a := range unavailable.Attempts {
			tried = append(tried, a.Address)
		}
		if !slices.Equal(tried, []string{"a:1", "b:1", "x:1"}) {
			t.Errorf("tried were %q", tried)
		}
		for _, want := range []string{"shard s1", "connection refused", "b:1: not shard leader"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
	})
}

// failing counts calls, and answers each with Unavailable.
type failing struct {
	nstancev1.UnimplementedOperatorServiceServer
	calls atomic.Int32
}

func (f *failing) CreateInstance(context.Context, *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error) {
	f.calls.Add(1)
	return nil, status.Error(codes.Unavailable, "storage is down")
}

func TestOnlyACallThatMayArriveTwiceIsRepeated(t *testing.T) {
	id := "knc068a3cp3thz5z2mv1gejwftabc"
	for name, test := range map[string]struct {
		request *nstancev1.CreateInstanceRequest
		once    bool
	}{
		"with an id":    {&nstancev1.CreateInstanceRequest{InstanceId: &id}, false},
		"without an id": {&nstancev1.CreateInstanceRequest{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := shardtest.NewCluster(t)
				server := &failing{}
				c.ListenAt(t, "s1", "a:1", server)
				api := connect(t, c, shardclient.Target{Addresses: []string{"a:1"}})
				_, err := api.CreateInstance(t.Context(), test.request)
				unavailable, ok := errors.AsType[*shardclient.UnavailableError](err)
				if !ok {
					t.Fatalf("error is %v", err)
				}
				if once := server.calls.Load() == 1; once != test.once || unavailable.Unknown != test.once {
					t.Errorf("%d calls, effect unknown: %v", server.calls.Load(), unavailable.Unknown)
				}
			})
		})
	}
}

func TestACreationWithoutIDStillFollowsAStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		c.ListenAt(t, "s1", "a:1", leader())
		c.ListenAt(t, "s1", "b:1", shardtest.Standby{Leader: "a:1"})
		api := connect(t, c, shardclient.Target{Addresses: []string{"b:1"}})
		if _, err := api.CreateInstance(t.Context(), &nstancev1.CreateInstanceRequest{}); err != nil {
			t.Error(err)
		}
	})
}

func TestForeignCertificatesEndACallAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		shard string // that the server is of
		same  bool   // authority of server and client
	}{
		"a server of another shard":   {"s2", true},
		"a server of another cluster": {"s1", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := shardtest.NewCluster(t)
				servers.ListenAt(t, test.shard, "a:1", leader())
				clients := servers
				if !test.same {
					clients = shardtest.NewCluster(t)
				}
				api := dialFrom(t, clients.Identity(t, "default"), servers)
				start := time.Now()
				_, err := api.ListGroups(t.Context(), &emptypb.Empty{})
				if !errors.Is(err, shardclient.ErrHandshake) {
					t.Errorf("error is %v", err)
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A client hears only after the handshake that the server refuses it.
func TestARefusedIdentityEndsACallAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, strangers := shardtest.NewCluster(t), shardtest.NewCluster(t)
		servers.ListenAt(t, "s1", "a:1", leader())
		// The stranger trusts the servers, who do not know its authority.
		dir := strangers.Identity(t, "default")
		ca, err := os.ReadFile(filepath.Join(servers.Identity(t, "default"), shardclient.CAFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, shardclient.CAFile), ca, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = dialFrom(t, dir, servers).ListGroups(t.Context(), &emptypb.Empty{})
		if !errors.Is(err, shardclient.ErrHandshake) {
			t.Errorf("error is %v", err)
		}
	})
}

func dialFrom(t *testing.T, identityDir string, servers *shardtest.Cluster) nstancev1.OperatorServiceClient {
	t.Helper()
	id, err := shardclient.LoadIdentity(identityDir, "", "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	conn := shardclient.Dial(shardclient.Target{Shard: "s1", Addresses: []string{"a:1"}}, id, shardclient.Options{DialContext: servers.Dial})
	t.Cleanup(func() { _ = conn.Close() })
	return nstancev1.NewOperatorServiceClient(conn)
}

func TestAStreamFindsTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		shard := leader()
		c.ListenAt(t, "s1", "a:1", shard)
		c.ListenAt(t, "s1", "b:1", shardtest.Standby{Leader: "a:1"})
		api := connect(t, c, shardclient.Target{Addresses: []string{"x:1", "b:1"}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := api.WatchGroups(ctx, &emptypb.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		event, err := stream.Recv()
		if err != nil || event.GetGroup().GetKey() != "web" {
			t.Fatalf("first event is %v, %v", event, err)
		}
		shard.BreakStreams()
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("a broken stream ends with %v", err)
		}
	})
}

func TestTheDeadlineOfTheCallerEndsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		api := connect(t, c, shardclient.Target{Addresses: []string{"a:1"}})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := api.ListGroups(ctx, &emptypb.Empty{})
		if _, ok := errors.AsType[*shardclient.UnavailableError](err); !ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v", err)
		}
	})
}
