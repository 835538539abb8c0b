package box

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"nstance.dev/server/bucket"
	"nstance.dev/server/driver"
	"nstance.dev/server/lease"
)

// Records returns the instance records in the storage, in the order of their keys.
// It is safe for concurrent use.
func (b *Box) Records() []bucket.InstanceRecord {
	paths, err := filepath.Glob(b.Path("bucket", filepath.FromSlash(bucket.InstancePrefix(Shard)), "*.json"))
	if err != nil {
		b.t.Error(err)
	}
	var records []bucket.InstanceRecord
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			b.t.Error(err)
			continue
		}
		record, err := bucket.DecodeInstanceRecord(bucket.InstancePrefix(Shard)+filepath.Base(path), data)
		if err != nil {
			b.t.Error(err)
			continue
		}
		records = append(records, record)
	}
	return records
}

// RecordIDs returns the ids of the instances that have a record, in order. It is
// safe for concurrent use.
func (b *Box) RecordIDs() []string {
	var ids []string
	for _, r := range b.Records() {
		ids = append(ids, string(r.ID))
	}
	slices.Sort(ids)
	return ids
}

// ConfigPath is where the configuration of the shard lies.
func (b *Box) ConfigPath() string { return b.Path("bucket", bucket.ConfigKey(Shard)) }

// Config returns the text of the configuration.
func (b *Box) Config() string {
	b.t.Helper()
	data, err := os.ReadFile(b.ConfigPath())
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// SetConfig replaces the configuration, as an editor would.
func (b *Box) SetConfig(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.ConfigPath(), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// Lock returns the document of the shard's leader lock.
func (b *Box) Lock() (lease.Document, error) {
	data, err := os.ReadFile(b.Path("bucket", bucket.LeaderKey(Shard)))
	if err != nil {
		return lease.Document{}, err
	}
	return lease.Decode(data)
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
