package box

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/backends"
)

// storeTimeout bounds one look into the storage.
const storeTimeout = 20 * time.Second

// store returns what keeps the state of the box; it is opened on first use, since a
// directory may not be there before. It is safe for concurrent use.
func (b *Box) store(ctx context.Context) (objectstore.Store, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened == nil {
		store, err := backends.Open(ctx, b.storage)
		if err != nil {
			return nil, err
		}
		b.opened = store
	}
	return b.opened, nil
}

// get reads an object.
func (b *Box) get(key string) (objectstore.Object, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	store, err := b.store(ctx)
	if err != nil {
		return objectstore.Object{}, err
	}
	return store.Get(ctx, key)
}

// put writes an object, whatever it was before.
func (b *Box) put(key string, data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	store, err := b.store(ctx)
	if err != nil {
		return err
	}
	old, err := store.Get(ctx, key)
	if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	_, err = objectstore.Put(ctx, store, key, data, old.ETag, objectstore.RetryPolicy{})
	return err
}

// recordKeys returns the keys of all instance records, in order; none while no
// process has made the directory that they are to lie in.
func (b *Box) recordKeys() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	store, err := b.store(ctx)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var keys []string
	for info, err := range objectstore.ListAll(ctx, store, layout.InstancePrefix(Shard)) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// ListRecords returns the ids of the instances that have a record, in order. It is
// safe for concurrent use.
func (b *Box) ListRecords() ([]string, error) {
	keys, err := b.recordKeys()
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(keys))
	for i, key := range keys {
		_, _, id, err := layout.ParseInstanceKey(key)
		if err != nil {
			return nil, err
		}
		ids[i] = string(id)
	}
	slices.Sort(ids)
	return ids, nil
}

// RecordIDs is [Box.ListRecords] while the storage is there.
func (b *Box) RecordIDs() []string {
	ids, err := b.ListRecords()
	if err != nil {
		b.t.Errorf("list the records: %v", err)
	}
	return ids
}

// Record returns the record of an instance of the default tenant.
func (b *Box) Record(id string) (layout.InstanceRecord, error) {
	key := layout.InstanceKey(Shard, identity.DefaultTenant, identity.ID(id))
	object, err := b.get(key)
	if err != nil {
		return layout.InstanceRecord{}, err
	}
	return layout.DecodeInstanceRecord(key, object.Data)
}

// Assign stores an assignment of a host machine for an instance of the default tenant.
func (b *Box) Assign(id string) error {
	rec := layout.MachineRecord{
		Term: 1, InstanceID: identity.ID(id), Tenant: identity.DefaultTenant, Epoch: 1, Payload: []byte("assignment"), At: layout.At(time.Now()),
	}
	data, err := rec.Encode()
	if err != nil {
		return err
	}
	return b.put(rec.Key(Shard), data)
}

// Assigned is the stored assignment of an instance, as text; empty: there is none.
func (b *Box) Assigned(id string) (string, error) {
	object, err := b.get(layout.MachineKey(Shard, identity.DefaultTenant, identity.ID(id)))
	if errors.Is(err, objectstore.ErrNotFound) {
		return "", nil
	}
	return string(object.Data), err
}

// ConfigPath is where the configuration of the shard lies in a directory.
func (b *Box) ConfigPath() string { return b.Path("bucket", layout.ConfigKey(Shard)) }

// Config returns the text of the configuration.
func (b *Box) Config() string {
	b.t.Helper()
	object, err := b.get(layout.ConfigKey(Shard))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(object.Data)
}

// SetConfig replaces the configuration, as an editor would.
func (b *Box) SetConfig(text string) {
	b.t.Helper()
	if err := b.put(layout.ConfigKey(Shard), []byte(text)); err != nil {
		b.t.Fatal(err)
	}
}

// Lock returns the document of the shard's leader lock.
func (b *Box) Lock() (lease.Document, error) {
	object, err := b.get(layout.LeaderKey(Shard))
	if err != nil {
		return lease.Document{}, err
	}
	return lease.Decode(object.Data)
}

// Leader returns the addresses that the leader has published.
func (b *Box) Leader() (driver.Addresses, error) {
	var addrs driver.Addresses
	data, err := os.ReadFile(b.Path("machines", "leader.json"))
	if err != nil {
		return addrs, err
	}
	return addrs, json.Unmarshal(data, &addrs)
}

// Leads returns nil if the server with that id holds the lock, has published its
// addresses and answers operators.
func (b *Box) Leads(id string) error {
	lock, err := b.Lock()
	if err != nil {
		return err
	}
	if lock.LeaderID != id || lock.Released {
		return fmt.Errorf("%s leads, or has just stopped to", lock.LeaderID)
	}
	addrs, err := b.Leader()
	if err != nil {
		return err
	}
	if addrs.Operator != lock.Addrs.Operator {
		return errors.New("the leader has not published its addresses")
	}
	_, err = b.Groups()
	return err
}

// StoredOperation is the record of an operation of the default tenant, as text.
func (b *Box) StoredOperation(id string) string {
	b.t.Helper()
	object, err := b.get(layout.OperationKey(Shard, identity.DefaultTenant, id))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(object.Data)
}
