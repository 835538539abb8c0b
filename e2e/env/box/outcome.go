package box

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Settled returns nil if the box is as a group of that size wants it: the leader
// says so, each instance that runs has reported since a moment, and there are
// exactly as many processes and records, which fit one to one.
func (b *Box) Settled(group string, size int, reported time.Time) error {
	if err := b.settledSays(group, size); err != nil {
		return err
	}
	if err := b.reported(size, reported); err != nil {
		return err
	}
	return b.OneToOne(size)
}

func (b *Box) settledSays(group string, size int) error {
	groups, err := b.Groups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		if g.Key != group {
			continue
		}
		if int(g.Size) != size || int(g.ActualSize) != size || g.Pending+g.Unhealthy+g.Draining != 0 {
			return fmt.Errorf("group %s of size %d, not %d: %d running, %d pending, %d unhealthy, %d draining",
				group, g.Size, size, g.ActualSize, g.Pending, g.Unhealthy, g.Draining)
		}
		return nil
	}
	return fmt.Errorf("no group %s", group)
}

// reported returns nil if there are exactly that many instances, all run, and have
// sent a report since.
func (b *Box) reported(size int, since time.Time) error {
	instances, err := b.Instances()
	if err != nil {
		return err
	}
	if len(instances) != size {
		return fmt.Errorf("%d instances, not %d", len(instances), size)
	}
	for _, i := range instances {
		if i.Status != "running" {
			return fmt.Errorf("instance %s is %s", i.InstanceId, i.Status)
		}
		if !since.IsZero() && i.GetLastSeen().AsTime().Before(since) {
			return fmt.Errorf("instance %s was last seen %v before", i.InstanceId, since.Sub(i.GetLastSeen().AsTime()))
		}
	}
	return nil
}

// OneToOne returns nil if there are exactly that many processes of machines, as
// many directories and as many records, of the same instances (S4, S5).
func (b *Box) OneToOne(size int) error {
	records, err := b.ListRecords()
	if err != nil {
		return err
	}
	machines, directories := b.Machines(), b.Directories()
	var errs []error
	for _, count := range []struct {
		what string
		n    int
	}{{"processes", len(machines)}, {"records", len(records)}, {"directories", len(directories)}} {
		if count.n != size {
			errs = append(errs, fmt.Errorf("%d %s, not %d", count.n, count.what, size))
		}
	}
	ids := IDs(machines)
	if !slices.Equal(ids, records) {
		errs = append(errs, fmt.Errorf("processes and records differ: %v and %v", without(ids, records), without(records, ids)))
	}
	if !slices.Equal(ids, directories) {
		errs = append(errs, fmt.Errorf("processes and directories differ: %v and %v", without(ids, directories), without(directories, ids)))
	}
	return errors.Join(errs...)
}

// without returns what is in a and not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
