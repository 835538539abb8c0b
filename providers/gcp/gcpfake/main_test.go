package gcpfake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"go.uber.org/goleak"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"nstance.dev/providers/gcp/gcpfake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// account is a cloud, and Google's own clients for it.
type account struct {
	*gcpfake.Cloud
	t         *testing.T
	zone      string
	instances *compute.InstancesClient
	ops       *compute.ZoneOperationsClient
}

// within runs a test in a bubble, on a new cloud.
func within(t *testing.T, opts gcpfake.Options, test func(*testing.T, *account)) {
	synctest.Test(t, func(t *testing.T) {
		cloud := gcpfake.New(opts)
		t.Cleanup(cloud.Close)
		test(t, open(t, cloud))
	})
}

func open(t *testing.T, cloud *gcpfake.Cloud) *account {
	t.Helper()
	a := &account{Cloud: cloud, t: t, zone: cloud.Region() + "-b"}
	opts := a.options()
	var errs [2]error
	a.instances, errs[0] = compute.NewInstancesRESTClient(t.Context(), opts...)
	a.ops, errs[1] = compute.NewZoneOperationsRESTClient(t.Context(), opts...)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return a
}

// options lead a client to the cloud.
func (a *account) options() []option.ClientOption {
	return []option.ClientOption{option.WithHTTPClient(a.Client()), option.WithEndpoint(gcpfake.Endpoint)}
}

// request asks for a machine that is fine.
func (a *account) request(name string) *computepb.InsertInstanceRequest {
	return &computepb.InsertInstanceRequest{
		Project: a.Project(), Zone: a.zone,
		InstanceResource: &computepb.Instance{
			Name:        &name,
			MachineType: new("zones/" + a.zone + "/machineTypes/e2-medium"),
			Labels:      map[string]string{"team": "one"},
			Disks: []*computepb.AttachedDisk{{Boot: new(true), AutoDelete: new(true), InitializeParams: &computepb.AttachedDiskInitializeParams{
				SourceImage: new("projects/debian-cloud/global/images/family/debian-12")}}},
			NetworkInterfaces: []*computepb.NetworkInterface{{Subnetwork: new("regions/" + a.Region() + "/subnetworks/nstance")}},
		},
	}
}

// insert makes a machine and waits for the operation.
func (a *account) insert(name string, change ...func(*computepb.Instance)) error {
	a.t.Helper()
	req := a.request(name)
	for _, c := range change {
		c(req.InstanceResource)
	}
	op, err := a.instances.Insert(a.t.Context(), req)
	if err != nil {
		return err
	}
	return op.Wait(a.t.Context())
}

// must makes a machine that nothing speaks against.
func (a *account) must(name string, change ...func(*computepb.Instance)) {
	a.t.Helper()
	if err := a.insert(name, change...); err != nil {
		a.t.Fatalf("insert %s: %v", name, err)
	}
}

func (a *account) delete(name string) error {
	op, err := a.instances.Delete(a.t.Context(), &computepb.DeleteInstanceRequest{Project: a.Project(), Zone: a.zone, Instance: name})
	if err != nil {
		return err
	}
	return op.Wait(a.t.Context())
}

func (a *account) get(name string) (*computepb.Instance, error) {
	return a.instances.Get(a.t.Context(), &computepb.GetInstanceRequest{Project: a.Project(), Zone: a.zone, Instance: name})
}

// status is what get says of a machine's state, or the code of its refusal.
func (a *account) status(name string) string {
	m, err := a.get(name)
	if err != nil {
		return said(err)
	}
	return m.GetStatus()
}

func (a *account) names(filter string, pageSize uint32) ([]string, error) {
	return names(a.instances.List(a.t.Context(), &computepb.ListInstancesRequest{
		Project: a.Project(), Zone: a.zone, Filter: &filter, MaxResults: &pageSize}))
}

func names(it *compute.InstanceIterator) (all []string, err error) {
	for {
		m, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, m.GetName())
	}
}

// said is the status and the reason of a refusal.
func said(err error) string {
	var e *googleapi.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	if len(e.Errors) == 0 {
		return fmt.Sprint(e.Code)
	}
	return fmt.Sprintf("%d %s", e.Code, e.Errors[0].Reason)
}

// later lets time pass and everything settle.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func impatient(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
