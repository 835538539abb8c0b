package shards

import "strings"

// StorageFlags are those with which nstance-admin works on the cluster's storage, for a
// command line.
func (c *Cluster) StorageFlags() string {
	return strings.Join([]string{
		"--storage-provider", "file", "--storage-bucket", c.bucket(), "--key-provider", "file", "--key-source", c.box.KeyPath(),
	}, " ")
}
