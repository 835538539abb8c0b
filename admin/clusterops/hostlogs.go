package clusterops

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// HostLog are logs that operation collectLogs has collected on a host.
type HostLog struct {
	Key       string    `json:"key"`
	Shard     string    `json:"shard"`
	Tenant    string    `json:"tenant"`
	Instance  string    `json:"instance"`
	At        time.Time `json:"at"`
	Operation string    `json:"operation"` // UID of the MachineOperation
	Size      int64     `json:"size"`      // compressed, in bytes
}

// mostHostLog is how large logs are at most that are shown, decompressed: twice what a host collects.
const mostHostLog = 16 << 20

// HostLogs returns the logs of hosts, of one instance or, for an empty name, of all, the newest first.
func (c *Cluster) HostLogs(ctx context.Context, instance string) ([]HostLog, error) {
	all := []HostLog{}
	for o, err := range objectstore.ListAll(ctx, c.objects, layout.HostLogs) {
		if err != nil {
			return nil, fmt.Errorf("list the logs of hosts: %w", err)
		}
		shard, l, err := layout.ParseHostLogKey(o.Key)
		if err != nil || instance != "" && l.Instance.String() != instance {
			continue
		}
		all = append(all, HostLog{Key: o.Key, Shard: shard, Tenant: l.Tenant, Instance: l.Instance.String(), At: l.At.UTC(), Operation: l.Operation, Size: o.Size})
	}
	slices.SortStableFunc(all, func(a, b HostLog) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Key, b.Key)) })
	return all, nil
}

// HostLog returns the text of logs of a host by their key. The error matches [objectstore.ErrNotFound] where there are none.
func (c *Cluster) HostLog(ctx context.Context, key string) ([]byte, error) {
	if _, _, err := layout.ParseHostLogKey(key); err != nil {
		return nil, err
	}
	o, err := c.objects.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	packed, err := gzip.NewReader(bytes.NewReader(o.Data))
	if err != nil {
		return nil, fmt.Errorf("read %s: the object is not compressed with gzip, as logs of hosts are: %w", key, err)
	}
	text, err := io.ReadAll(io.LimitReader(packed, mostHostLog+1))
	if err == nil && len(text) > mostHostLog {
		err = errors.New("they are larger than any host collects")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return text, nil
}
