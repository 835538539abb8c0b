package providers

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/guest"
	"nstance.dev/server/driver/drivertest/wire"
)

// Cloud is a fake cloud, and what a server has to be told to use it.
type Cloud struct {
	Name     string
	Program  string         // the build of the server
	Provider map[string]any // server.provider
	Leader   map[string]any // server.leader_network; nil: the cloud can't move an address
	Subnets  []string
	Template map[string]any // of machines: instance_type, arch and args
	UserData string         // which one of deploy/userdata

	// Server makes the machine that a server with this id runs on, and returns the
	// environment that the server finds there.
	Server func(id string) []string

	Gate      *wire.Gate
	Machines  func() []Machine              // that run or may run again, those of other people included
	Kill      func(id identity.ID)          // ends a machine like a crash
	Remove    func(id identity.ID)          // takes a machine away, as somebody does by hand
	Interrupt func(id identity.ID) bool     // gives a machine notice of its end; nil: the cloud doesn't
	Plant     func(tags map[string]string)  // makes a machine with our tags that no server asked for
	Holder    func() string                 // id of the server that has the leader's address; nil with Leader
	Faults    func(seed uint64) wire.Faults // everything that can go wrong with a call, at random

	Troubles map[string]Trouble // by kind; those of [Kinds] that a shard can be in while it comes to another size
	Hide     func(bool)         // listings show no machine, or they do again
	SlowEnd  func(bool)         // a delete takes several times as long as a listing comes again, or not
	calls    calls
}

// faults are what a cloud can answer in place of what it should, and answers that come
// late or never, for a share of the calls. Only a create can find that there is no room.
func (c calls) faults(seed uint64) wire.Faults {
	common := []wire.Fault{
		{Kind: driver.Throttled},
		{Kind: driver.Transient},
		{Kind: driver.Ambiguous, After: true},
		{Lost: true},
		{Delay: 2 * time.Second},
		{Linger: 2 * time.Second},
	}
	return wire.Any(
		wire.Only(func(call wire.Call) bool { return call.Op == c.create },
			wire.Random(seed, c.share, append(slices.Clone(common), wire.Fault{Kind: driver.Capacity})...)),
		wire.Only(func(call wire.Call) bool { return call.Op != c.create }, wire.Random(seed, c.share, common...)),
	)
}

// staleness is how far behind listings are that lag, and slowEnd how long a delete takes
// that takes long.
const (
	staleness = 6 * time.Second
	slowEnd   = 15 * time.Second
)

// Machine is the truth about one machine of a cloud.
type Machine struct {
	Name string // in the cloud's words
	ID   string // the identity that it has been given; empty for those of other people
	Runs bool
}

// hosts runs the machines of a cloud.
type hosts struct {
	t         testing.TB
	dir       string
	agent     string
	everyBoot bool
	metadata  func(name string) http.Handler // nil: the cloud has no such service
	stillborn atomic.Int32                   // how many of the next machines do not begin to run
}

func newHosts(t testing.TB) *hosts {
	return &hosts{t: t, dir: directory(t), agent: binary(t, "nstance-agent")}
}

var errStillborn = errors.New("the machine does not come up")

// births is the trouble that machines which were made do not come up.
func (h *hosts) births() Trouble {
	return Trouble{
		Begin: func() { h.stillborn.Store(2) },
		Felt: func() error {
			if left := h.stillborn.Load(); left > 0 {
				return fmt.Errorf("%d more machines have to fail", left)
			}
			return nil
		},
		End: func() { h.stillborn.Store(0) },
	}
}

// run boots a machine, and returns how to end it: at once, like a loss of power.
func (h *hosts) run(name string, userData []byte) (stop func(), err error) {
	o := guest.Options{Dir: filepath.Join(h.dir, name), UserData: userData, Agent: h.agent, EveryBoot: h.everyBoot}
	if len(userData) == 0 {
		return func() {}, nil // somebody else's
	}
	if h.stillborn.Add(-1) >= 0 {
		return nil, errStillborn
	}
	closeService := func() {}
	if h.metadata != nil {
		service := httptest.NewServer(h.metadata(name))
		closeService = func() { service.CloseClientConnections(); service.Close() }
		o.Env = append(o.Env, identity.EnvMetadataAddr+"="+service.Listener.Addr().String())
	}
	m, err := guest.Start(o)
	if err != nil {
		closeService()
		h.t.Logf("machine %s: %v", name, err)
		return nil, err
	}
	return func() { m.Kill(); closeService() }, nil
}

// serve makes a handler reachable until the test ends, and returns its URL.
func serve(t testing.TB, handler http.Handler) string {
	server := httptest.NewServer(handler)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// directory returns an empty one with a short name; it goes with the test.
func directory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cloud-") //nolint:usetesting // t.TempDir has the test's name in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// repository is the directory with go.work above the test's.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no directory above this one has a go.work")
		}
		dir = filepath.Dir(dir)
	}
}

// binary returns the path of a program that `make build` made.
func binary(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(repository(t), "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build it with `make build`", err)
	}
	return path
}
