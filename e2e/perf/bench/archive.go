package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/shard"
)

// archive is what a shard of many instances has left in storage and at the
// provider: groups of the same size, all of whose machines have registered, and a
// snapshot of their records.
type archive struct {
	store  *memory.Store
	cloud  *drivertest.Cloud
	groups int

	cfg    string                           // of its leaders; empty: that of all worlds
	driver driver.Driver                    // nil: the cloud
	adapt  func(rec *layout.InstanceRecord) // of each record; nil: it stays as a shard made it
}

// archiveGeneration is that of the snapshot, above any that the model's shard left.
const archiveGeneration = 1000

// groupSize is how many instances a group of an archive has.
const groupSize = 100

// groupName is that of the nth group of an archive.
func groupName(n int) string { return fmt.Sprintf("web-%d", n) }

// newArchive makes an archive of so many instances, a multiple of groupSize. A
// shard makes the first one, from which all others are copied.
func newArchive(ctx context.Context, instances int, cloud drivertest.Options) (*archive, error) {
	a := &archive{groups: instances / groupSize}
	return a, a.fill(ctx, instances, cloud)
}

// fill makes the store and the cloud, the records of so many instances, and their machines.
func (a *archive) fill(ctx context.Context, instances int, cloud drivertest.Options) error {
	nursery := newNursery()
	cloud.OnCreate = func(req driver.CreateRequest) {
		if len(req.UserData) > 0 { // a shard asked for it
			nursery.boot(req)
		}
	}
	a.store, a.cloud = memory.New(memory.Options{}), drivertest.New(cloud)
	model, err := a.model(ctx, nursery)
	if err != nil {
		return err
	}
	if err := a.putGroups(ctx); err != nil {
		return err
	}
	records := make([]stored, instances)
	records[0] = model
	var g errgroup.Group
	g.SetLimit(8)
	for i := 1; i < instances; i++ {
		g.Go(func() (err error) {
			records[i], err = a.copy(ctx, model.record, groupName(i/groupSize))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return a.putSnapshot(ctx, records)
}

// stored is a record as it stands in storage.
type stored struct {
	record layout.InstanceRecord
	data   []byte
	etag   string
}

// model has a shard make one instance, whose agent registers, and returns its
// record.
func (a *archive) model(ctx context.Context, nursery *nursery) (one stored, err error) {
	w, err := scene{store: a.store, cloud: a.cloud}.begin(ctx)
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	agents, err := nursery.enrol(ctx, w, groupName(0), 1)
	if err != nil {
		return one, err
	}
	key := layout.InstanceKey(shardName, tenantName, agents[0].id)
	object, err := a.store.Get(ctx, key)
	if err != nil {
		return one, err
	}
	one.record, err = layout.DecodeInstanceRecord(key, object.Data)
	one.data, one.etag = object.Data, object.ETag
	if err != nil || a.adapt == nil {
		return one, err
	}
	a.adapt(&one.record)
	if one.data, err = one.record.Encode(); err != nil {
		return one, err
	}
	one.etag, err = a.store.PutIfMatch(ctx, key, one.data, object.ETag)
	return one, err
}

// machine asks the archive's cloud for the machine of a record.
func (a *archive) machine(ctx context.Context, rec layout.InstanceRecord) (driver.Machine, error) {
	return a.cloud.Create(ctx, driver.CreateRequest{
		InstanceID: rec.ID, Owner: driver.Owner{Cluster: clusterName, Shard: shardName},
		Tenant: rec.Tenant, Group: rec.Group, Template: rec.Template, Kind: rec.Kind, Arch: rec.Arch,
		InstanceType: rec.InstanceType, SubnetID: rec.SubnetID, CreatedAt: rec.CreatedAt.Time,
	})
}

// copy makes one more instance like the model.
func (a *archive) copy(ctx context.Context, model layout.InstanceRecord, group string) (one stored, err error) {
	rec := model
	if rec.ID, err = identity.NewID("vmx"); err != nil {
		return one, err
	}
	rec.Group, rec.NonceSHA256 = group, strings.Repeat("0", 35)+string(rec.ID)
	vm, err := a.machine(ctx, rec)
	if err != nil {
		return one, err
	}
	rec.ProviderID = vm.ProviderID
	one.record = rec
	if one.data, err = rec.Encode(); err != nil {
		return one, err
	}
	one.etag, err = a.store.PutIfAbsent(ctx, layout.InstanceKey(shardName, tenantName, rec.ID), one.data)
	return one, err
}

// putGroups writes the group file of the archive.
func (a *archive) putGroups(ctx context.Context) error {
	file, size := &groupfile.File{Term: 1}, groupSize
	for i := range a.groups {
		file.Set(tenantName, groupName(i), groupfile.Entry{Template: "plain", Size: &size})
	}
	data, err := groupfile.Encode(file)
	if err != nil {
		return err
	}
	key := layout.GroupsKey(shardName)
	object, err := a.store.Get(ctx, key)
	if err != nil {
		return err
	}
	_, err = a.store.PutIfMatch(ctx, key, data, object.ETag)
	return err
}

// putSnapshot writes what a leader leaves for the next one.
func (a *archive) putSnapshot(ctx context.Context, records []stored) error {
	part := 1
	packer := layout.PackSnapshot(shardName, 1, archiveGeneration, part)
	put := func(last bool) error {
		_, err := a.store.PutIfAbsent(ctx, layout.SnapshotKey(shardName, archiveGeneration, part), packer.Close(last))
		part++
		packer = layout.PackSnapshot(shardName, 1, archiveGeneration, part)
		return err
	}
	for _, r := range records {
		if packer.Add(r.data, r.etag) {
			continue
		}
		if err := put(false); err != nil {
			return err
		}
		packer.Add(r.data, r.etag)
	}
	return put(true)
}

// begin has a new leader take the archive over, and says how long that took. The
// registerer may be nil.
func (a *archive) begin(ctx context.Context, term uint64, reg prometheus.Registerer) (*world, time.Duration, error) {
	w, err := scene{store: a.store, cloud: a.cloud, driver: a.driver, cfg: a.cfg, metrics: shard.NewMetrics(reg)}.prepare(ctx)
	if err != nil {
		return nil, 0, err
	}
	started := time.Now()
	err = w.lead(ctx, lease.Always(w.ctx, term), term)
	took := time.Since(started)
	if err != nil {
		return nil, 0, errors.Join(err, w.close())
	}
	return w, took, nil
}
