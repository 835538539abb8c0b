package processes_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"nstance.dev/e2e/env/box"
	"nstance.dev/server/layout"
)

// Somebody deletes a record while no server runs. Its machine is unmanaged and goes on;
// adopted, it is an instance again, with the certificate that its agent has.
func TestF11_MachineWithoutARecordIsHeldAndAdopted(t *testing.T) {
	t.Parallel()
	b, p := up(t, 2, "--keep")
	lost, err := b.Record(b.RecordIDs()[0])
	if err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGKILL)
	p.Exit(t)
	key := layout.InstanceKey(box.Shard, lost.Tenant, lost.ID)
	if err := os.Remove(b.Path("bucket", key)); err != nil {
		t.Fatal(err)
	}
	b.Dev(2, "--keep")
	b.Await("the machine is unmanaged", func() error {
		if r := b.Admin("instance", "list", "--unmanaged", "-o", "name"); strings.TrimSpace(r.Out) != lost.ProviderID {
			return fmt.Errorf("held: %s%s", r.Out, r.Err)
		}
		return nil
	})
	r := b.AdminOK("instance", "adopt", lost.ProviderID)
	if !strings.Contains(r.Out, "adopted as instance "+lost.ID.String()) {
		t.Errorf("adopt said %q", r.Out)
	}
	// The group was filled up meanwhile, so one is too many now: the oldest goes,
	// which is the adopted one. An unmanaged machine would stay for ever.
	b.Await("the group has its size, the adopted machine counted", func() error {
		all, err := b.Instances()
		if err != nil {
			return err
		}
		if len(all) != 2 || len(b.Directories()) != 2 || slices.Contains(b.RecordIDs(), lost.ID.String()) {
			return fmt.Errorf("%d machines, instances %v", len(b.Directories()), all)
		}
		return nil
	})
	if r := b.AdminOK("instance", "list", "--unmanaged", "-o", "name"); r.Out != "" {
		t.Errorf("still held: %q", r.Out)
	}
}
