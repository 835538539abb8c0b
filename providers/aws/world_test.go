package aws_test

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/aws"
	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

const (
	region = "us-east-1"
	zone   = region + "a"

	machines = "subnet-0b1100000000000a" // where machines are made
	servers  = "subnet-0a1100000000000a"
)

// TestMain keeps the environment of whoever runs the tests out of them.
func TestMain(m *testing.M) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			_ = os.Unsetenv(name)
		}
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": awsfake.AccessKey, "AWS_SECRET_ACCESS_KEY": awsfake.SecretKey,
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		_ = os.Setenv(name, value)
	}
	goleak.VerifyTestMain(m)
}

// world is an account, and in it an instance that a server runs on.
type world struct {
	*awsfake.Cloud
	server string // the instance
	record recording
}

// testAccount is the default account with a subnet for machines, of a size that
// leaves room for few beside the addresses that AWS and the driver keep back.
func testAccount() *awsfake.Account {
	account := awsfake.DefaultAccount(region)
	account.Subnets = append(account.Subnets, awsfake.Subnet{ID: machines, Zone: zone, IPv4: netip.MustParsePrefix("10.0.32.0/27")})
	return &account
}

func newWorld(t *testing.T, opts awsfake.Options) *world {
	t.Helper()
	opts.Region, opts.Account = region, testAccount()
	w := &world{Cloud: awsfake.New(opts)}
	t.Cleanup(w.Close)
	w.server = w.Plant(nil)
	<-time.After(opts.Lag) // it was there before
	return w
}

// inWorld runs a test in a world of its own and on a fake clock.
func inWorld(t *testing.T, opts awsfake.Options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, opts)) })
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// slow is a cloud that takes its time, and shows changes later.
func slow() awsfake.Options {
	return awsfake.Options{Lag: 7 * time.Second, Boot: 12 * time.Second, Stop: 15 * time.Second, End: 20 * time.Second, PageSize: 5}
}

// driver is that of a server on the instance that it is asked for; "" is the
// world's own.
func (w *world) driver(t *testing.T, server string, change ...func(*aws.Options)) *aws.Driver {
	t.Helper()
	if server == "" {
		server = w.server
	}
	opts := aws.Options{
		Region: region, Zone: zone,
		LeaderIP: "10.0.15.200", LeaderInterface: "eni-0a11000000000001",
		HTTPClient: &http.Client{Transport: hosts{w.record.of(wire.RoundTripper(w.Cloud)), wire.RoundTripper(w.Metadata(server))}},
		Addresses:  func() ([]net.Addr, error) { return nil, nil },
	}
	for _, f := range change {
		f(&opts)
	}
	d, err := aws.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// hosts sends requests to where their address leads on an instance of EC2.
type hosts struct{ api, metadata http.RoundTripper }

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == "169.254.169.254" {
		return h.metadata.RoundTrip(r)
	}
	return h.api.RoundTrip(r)
}

var owner = driver.Owner{Cluster: "c", Shard: zone}

// request is one for a new machine, with which nothing is wrong.
func request(t *testing.T) driver.CreateRequest {
	t.Helper()
	id, err := identity.NewID("knc")
	if err != nil {
		t.Fatal(err)
	}
	req := driver.CreateRequest{
		InstanceID: id, Owner: owner, Tenant: "default", Group: "web", Template: "worker", Kind: "knc", Arch: "arm64",
		CreatedAt: id.CreatedAt(),
	}
	complete(&req)
	return req
}

// complete adds what EC2 needs.
func complete(req *driver.CreateRequest) {
	req.Arch, req.InstanceType, req.SubnetID = "arm64", "t4g.small", machines
	req.UserData = []byte("#!/bin/sh\n")
	req.Args = map[string]any{
		"ImageId":            "ami-0a1100000000000003",
		"IamInstanceProfile": map[string]any{"Name": "nstance-agent"},
		"MetadataOptions":    map[string]any{"HttpTokens": "required"},
	}
}

// alive are the machines that carry our tag and have not ended.
func (w *world) alive() []awsfake.Machine {
	var ours []awsfake.Machine
	for _, m := range w.Alive() {
		if m.Tags[identity.TagManaged] == "true" {
			ours = append(ours, m)
		}
	}
	return ours
}

// of returns the id of the instance that an instance id has.
func (w *world) of(id identity.ID) string {
	for _, m := range w.alive() {
		if m.Tags[identity.TagInstanceID] == string(id) {
			return m.ID
		}
	}
	return ""
}
