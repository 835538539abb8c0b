package drivertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Harness says how the suite reaches a driver. Only New is required.
type Harness struct {
	// New returns a driver over an account without machines. What it leaves
	// behind is cleaned up through t.
	New func(t *testing.T) driver.Driver

	// Wrap runs each test, which then calls New; with it a test can run in a
	// bubble of testing/synctest. The zero value runs it as it is.
	Wrap func(t *testing.T, test func(t *testing.T))

	// Request completes a create request with what the provider needs: type,
	// subnet, args, user data. The zero value leaves it as it is.
	Request func(req *driver.CreateRequest)

	// Reopen returns another driver over the same account, as a server has that
	// was started again. Without it that is not tested.
	Reopen func(t *testing.T, d driver.Driver) driver.Driver

	// Forgets says that the cloud keeps no trace of what is gone, so that a driver
	// that was opened again makes a machine whose deletion the one before has seen.
	Forgets bool

	// Kill makes a running machine crash. Without it that is not tested.
	Kill func(t *testing.T, d driver.Driver, id identity.ID)

	// Write makes a machine write text to the first of the driver's sources of output. Without it
	// what is told of that is not tested.
	Write func(t *testing.T, d driver.Driver, id identity.ID, text string)

	// Delay makes the call that creates a machine reach the cloud that much later,
	// from now on. Without it a delete is tried only as early in a create as a
	// driver's own pauses allow.
	Delay func(t *testing.T, d driver.Driver, by time.Duration)

	// Many is how many machines are made at once to see that lists are whole: more than a page of the cloud has. Without
	// it that is not tested.
	Many int

	// Room is how many machines fit into the subnet of the requests, for a
	// driver that checks subnets; 0 if that is not limited.
	Room int

	// Balancers are two load balancers that exist, for a driver that has them.
	// Without them that is not tested.
	Balancers []driver.LoadBalancer

	// Images are look-ups, for a driver that resolves images. Without them that
	// is not tested.
	Images []ImageCase

	// Capacity are the provider's rules of capacity types, for a driver that is to be tried with
	// them; Reservation is one that exists, where reserved capacity is served. Without Capacity that
	// is not tested.
	Capacity    *driver.CapacityRules
	Reservation string

	// Patience is how long the provider may take to boot or to end a machine,
	// beside the driver's Lag. 30s.
	Patience time.Duration
}

// ImageCase is a look-up of an image and its answer; an empty one if none matches.
type ImageCase struct {
	Query driver.ImageQuery
	Want  string
}

// suite is a harness at work in one test.
type suite struct {
	Harness
	driver.Driver
	t       *testing.T
	missing string // the ability that the driver does not have, so that the test has shown nothing
}

var testOwner = driver.Owner{Cluster: "suite", Shard: "one"}

// request returns a valid request for a new machine of owner.
func (s *suite) request(owner driver.Owner) driver.CreateRequest {
	s.t.Helper()
	id, err := identity.NewID("knc")
	if err != nil {
		s.t.Fatal(err)
	}
	req := driver.CreateRequest{
		InstanceID: id,
		Owner:      owner,
		Tenant:     "default",
		Group:      "web",
		Template:   "worker",
		Kind:       "knc",
		Arch:       "amd64",
		CreatedAt:  id.CreatedAt(),
	}
	if s.Request != nil {
		s.Request(&req)
	}
	return req
}

// create makes a new machine of owner and waits until it runs.
func (s *suite) create(owner driver.Owner) driver.Machine {
	s.t.Helper()
	m, err := s.Create(s.t.Context(), s.request(owner))
	if err != nil {
		s.t.Fatalf("create: %v", err)
	}
	return s.await(m.InstanceID, driver.Running)
}

// await waits until Get shows the status.
func (s *suite) await(id identity.ID, want driver.Status) driver.Machine {
	s.t.Helper()
	var got driver.Machine
	s.eventually(fmt.Sprintf("%s is %s", id, want), func(ctx context.Context) string {
		m, err := s.Get(ctx, driver.Ref{InstanceID: id})
		if err != nil && !driver.IsNotFound(err) {
			s.t.Fatalf("get %s: %v", id, err)
		}
		got = m
		if err == nil && m.Status == want {
			return ""
		}
		return fmt.Sprintf("status %q, error %v", m.Status, err)
	})
	return got
}

// awaitGone waits until Get shows that the machine has ended, or does not show
// it, and List does not either.
func (s *suite) awaitGone(owner driver.Owner, id identity.ID) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%s is gone", id), func(ctx context.Context) string {
		m, err := s.Get(ctx, driver.Ref{InstanceID: id})
		if err != nil && !driver.IsNotFound(err) {
			s.t.Fatalf("get %s: %v", id, err)
		}
		if err == nil && m.Status != driver.Deleted {
			return fmt.Sprintf("get shows it as %q", m.Status)
		}
		if n := len(s.listed(owner, id)); n > 0 {
			return fmt.Sprintf("listed %d times", n)
		}
		return ""
	})
}

// listed returns what List says of one machine.
func (s *suite) listed(owner driver.Owner, id identity.ID) []driver.Machine {
	s.t.Helper()
	all, err := s.List(s.t.Context(), owner)
	if err != nil {
		s.t.Fatalf("list: %v", err)
	}
	var found []driver.Machine
	for _, m := range all {
		if m.InstanceID == id {
			found = append(found, m)
		}
	}
	return found
}

// eventually asks until there is no objection left. A cloud gives no other
// sign; in a bubble the pauses cost nothing.
func (s *suite) eventually(what string, objection func(context.Context) string) {
	s.t.Helper()
	patience := s.Patience
	if patience == 0 {
		patience = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience+s.Lag())
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		now := objection(s.t.Context())
		if now == "" {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			s.t.Fatalf("never came true that %s: %s", what, now)
		}
	}
}
