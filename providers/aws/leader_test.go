package aws_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"nstance.dev/providers/aws"
	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// The address goes to whoever leads, by force: the one before may hang.
func TestLeaderNetworkMoves(t *testing.T) {
	inWorld(t, slow(), func(t *testing.T, w *world) {
		other := w.Plant(nil)
		w.pass(time.Minute)
		first, second := w.driver(t, ""), w.driver(t, other)
		for i, step := range []struct {
			name   string
			do     func(context.Context) error
			holder string
		}{
			{"the first takes it", assign(first), w.server},
			{"and keeps it", assign(first), w.server},
			{"the second takes it away", assign(second), other},
			{"the first lets go of what it has not", first.ReleaseLeaderNetwork, other},
			{"the first takes it back", assign(first), w.server},
			{"and lets go", first.ReleaseLeaderNetwork, ""},
			{"which it may do twice", first.ReleaseLeaderNetwork, ""},
		} {
			if err := step.do(t.Context()); err != nil {
				t.Fatalf("%d: %s: %v", i, step.name, err)
			}
			w.pass(time.Minute)
			if got := w.leader(t); got != step.holder {
				t.Errorf("%d: %s: it is at %q, want %q", i, step.name, got, step.holder)
			}
		}
	})
}

func assign(d *aws.Driver) func(context.Context) error {
	return func(ctx context.Context) error { return d.AssignLeaderNetwork(ctx, driver.Addresses{}) }
}

// leader is the instance that has the leader's interface.
func (w *world) leader(t *testing.T) string {
	t.Helper()
	client := ec2.New(ec2.Options{
		Region: region, HTTPClient: &http.Client{Transport: wire.RoundTripper(w)},
		Credentials: credentials.NewStaticCredentialsProvider(awsfake.AccessKey, awsfake.SecretKey, ""),
	})
	out, err := client.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{"eni-0a11000000000001"}})
	if err != nil {
		t.Fatal(err)
	}
	if a := out.NetworkInterfaces[0].Attachment; a != nil {
		return *a.InstanceId
	}
	return ""
}

// elsewhere is a network without the metadata service.
type elsewhere struct{ http.RoundTripper }

func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == "169.254.169.254" {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}
	}
	return e.RoundTripper.RoundTrip(r)
}

// A server that is started again leads where the one before it has just let go.
func TestLeaderNetworkComesBackToItsInstance(t *testing.T) {
	opts := slow()
	opts.Detach = 10 * time.Second
	inWorld(t, opts, func(t *testing.T, w *world) {
		before, after := w.driver(t, ""), w.driver(t, "")
		if err := assign(before)(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		if err := before.ReleaseLeaderNetwork(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * time.Second)
		if err := assign(after)(t.Context()); err != nil {
			t.Error(err)
		}
		w.pass(time.Minute)
		if got := w.leader(t); got != w.server {
			t.Errorf("it is at %q, want %q", got, w.server)
		}
	})
}

// Of two that want it at once one gets it, and knows; the other is to try again.
func TestLeaderNetworkIsHeldByOne(t *testing.T) {
	inWorld(t, slow(), func(t *testing.T, w *world) {
		other := w.Plant(nil)
		w.pass(time.Minute)
		var first, second error
		var wg sync.WaitGroup
		one, two := w.driver(t, w.server), w.driver(t, other)
		wg.Go(func() { first = assign(one)(t.Context()) })
		wg.Go(func() { second = assign(two)(t.Context()) })
		wg.Wait()
		w.pass(time.Minute)
		errs := map[string]error{w.server: first, other: second}
		holder := w.leader(t)
		if err, known := errs[holder]; !known || err != nil {
			t.Errorf("it is at %q: %v", holder, errs)
		}
		delete(errs, holder)
		for server, err := range errs {
			if err != nil && driver.ClassOf(err) != driver.Transient {
				t.Errorf("%s, which has not got it: %v", server, err)
			}
		}
	})
}

func TestLeaderNetworkThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*aws.Options)
		faults wire.Faults
		want   driver.ErrorClass
		says   string
	}{
		"it is not configured":      {func(o *aws.Options) { o.LeaderIP, o.LeaderInterface = "", "" }, nil, driver.Unsupported, "no leader_network"},
		"there is no such one":      {func(o *aws.Options) { o.LeaderInterface = "eni-0ffffffffffffffff" }, nil, driver.MissingRef, "eni-0ffffffffffffffff"},
		"it has another address":    {func(o *aws.Options) { o.LeaderIP = "10.0.0.9" }, nil, driver.Invalid, "server.leader_network.ip is 10.0.0.9"},
		"it may not be looked at":   {nil, wire.Always("DescribeNetworkInterfaces", wire.Fault{Kind: driver.Auth}), driver.Auth, ""},
		"it may not be attached":    {nil, wire.Always("AttachNetworkInterface", wire.Fault{Kind: driver.Auth}), driver.Auth, ""},
		"nobody knows if it was":    {nil, wire.Always("AttachNetworkInterface", wire.Fault{Lost: true}), driver.Ambiguous, ""},
		"this is no machine of EC2": {func(o *aws.Options) { o.HTTPClient.Transport = elsewhere{o.HTTPClient.Transport} }, nil, driver.Transient, "metadata service"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
				change := c.change
				if change == nil {
					change = func(*aws.Options) {}
				}
				d := w.driver(t, "", change)
				w.Gate().SetFaults(c.faults)
				err := assign(d)(t.Context())
				wantKind(t, "assign", err, c.want)
				if err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("assign: %v, want %q", err, c.says)
				}
			})
		})
	}
}

// The host has to configure the interface; where it has not, the log says so.
func TestLeaderNetworkOfTheHost(t *testing.T) {
	for name, c := range map[string]struct {
		addrs    []net.Addr
		warnings int
	}{
		"configured":     {[]net.Addr{&net.IPNet{IP: net.IPv4(10, 0, 15, 200), Mask: net.CIDRMask(20, 32)}}, 0},
		"not configured": {[]net.Addr{&net.IPNet{IP: net.IPv4(10, 0, 15, 201), Mask: net.CIDRMask(20, 32)}}, 1},
	} {
		inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
			var log bytes.Buffer
			d := w.driver(t, "", func(o *aws.Options) {
				o.Addresses = func() ([]net.Addr, error) { return c.addrs, nil }
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			for range 3 { // it is looked at again and again
				if err := assign(d)(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if warnings := strings.Count(log.String(), "the operating system must configure it"); warnings != c.warnings {
				t.Errorf("%s: %s", name, log.String())
			}
		})
	}
}

// mute is a network whose metadata service never answers.
type mute struct{ http.RoundTripper }

func (m mute) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == "169.254.169.254" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return m.RoundTripper.RoundTrip(r)
}

// Whoever asks which instance this is waits as long as it wants to, whoever else asks.
func TestOwnIDIsNotWaitedForInLine(t *testing.T) {
	inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
		d := w.driver(t, "", func(o *aws.Options) { o.HTTPClient.Transport = mute{o.HTTPClient.Transport} })
		began := time.Now()
		var waited [3]time.Duration
		var asking sync.WaitGroup
		for i := range waited {
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
				defer cancel()
				_, err := d.SelfID(ctx)
				wantKind(t, "own id", err, driver.Transient)
				waited[i] = time.Since(began)
			})
		}
		asking.Wait()
		if want := [...]time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; waited != want {
			t.Errorf("waited %v, want %v", waited, want)
		}
		w.pass(time.Minute) // the last question is given up
	})
}

// Force may block the index of a device and leave the metadata of its instance wrong
// until that is stopped; so it is the last resort.
func TestLeaderNetworkIsForcedOnlyFromWhoHangs(t *testing.T) {
	opts := slow()
	opts.Detach = 5 * time.Second
	for name, c := range map[string]struct {
		hangs  bool
		forced bool
		within time.Duration
	}{
		"from a server that lives": {hangs: false, forced: false, within: 10 * time.Second},
		"from one that hangs":      {hangs: true, forced: true, within: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, opts, func(t *testing.T, w *world) {
				other := w.Plant(nil)
				w.pass(time.Minute)
				first, second := w.driver(t, ""), w.driver(t, other)
				if err := assign(first)(t.Context()); err != nil {
					t.Fatal(err)
				}
				if c.hangs && !w.Hang(w.server) {
					t.Fatal("the first server does not run")
				}
				began := time.Now()
				if err := assign(second)(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("it took %v, want at most %v", took, c.within)
				}
				if got := w.leader(t); got != other {
					t.Errorf("it is at %q, want %q", got, other)
				}
				if forced := w.forced(t, w.server) > 0; forced != c.forced {
					t.Errorf("taken by force: %t, want %t", forced, c.forced)
				}
				if err := assign(first)(t.Context()); err != nil { // at another index, if the old one is blocked
					t.Errorf("the first takes it back: %v", err)
				}
			})
		})
	}
}

// A server that lets go has all the time that it takes.
func TestLeaderNetworkIsReleasedWithoutForce(t *testing.T) {
	inWorld(t, slow(), func(t *testing.T, w *world) {
		d := w.driver(t, "")
		for range 3 {
			if err := assign(d)(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Minute)
			if err := d.ReleaseLeaderNetwork(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Minute)
		}
		if n := w.forced(t, w.server); n != 0 {
			t.Errorf("%d interfaces were taken by force from a server that let go of them", n)
		}
	})
}

// forced counts the traces of force on an instance: interfaces that its metadata shows
// and that are not attached any more.
func (w *world) forced(t *testing.T, instance string) int {
	t.Helper()
	client := imds.New(imds.Options{HTTPClient: &http.Client{Transport: wire.RoundTripper(w.Metadata(instance))}, Retryer: sdk.NopRetryer{}})
	out, err := client.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: "network/interfaces/macs/"})
	if err != nil {
		t.Fatal(err)
	}
	macs, err := io.ReadAll(out.Content)
	if err != nil {
		t.Fatal(err)
	}
	shown := len(strings.Fields(string(macs))) - 1 // and its own
	if w.leader(t) == instance {
		shown--
	}
	return shown
}
