package store

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Metadata is what a machine's directory says of it: the tags of this cloud.
type Metadata struct {
	InstanceID   identity.ID `json:"instance_id"`
	Cluster      string      `json:"cluster"`
	Shard        string      `json:"shard"`
	Tenant       string      `json:"tenant"`
	Group        string      `json:"group"`
	Template     string      `json:"template"`
	Kind         string      `json:"kind"`
	Arch         string      `json:"arch"`
	InstanceType string      `json:"instance_type"`
	SubnetID     string      `json:"subnet_id"`
	CreatedAt    time.Time   `json:"created_at"`
}

// MetadataOf is what a request says of its machine.
func MetadataOf(r driver.CreateRequest) Metadata {
	return Metadata{
		InstanceID: r.InstanceID, Cluster: r.Owner.Cluster, Shard: r.Owner.Shard,
		Tenant: r.Tenant, Group: r.Group, Template: r.Template, Kind: r.Kind, Arch: r.Arch,
		InstanceType: r.InstanceType, SubnetID: r.SubnetID, CreatedAt: r.CreatedAt,
	}
}

// Owner is whose machine it is.
func (m Metadata) Owner() driver.Owner { return driver.Owner{Cluster: m.Cluster, Shard: m.Shard} }

// ReadMetadata returns what a directory says of its machine.
func ReadMetadata(dir string) (Metadata, error) {
	path := filepath.Join(dir, MetadataFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return Metadata{}, err
	}
	var m Metadata
	if err := json.Unmarshal(data, &m); err != nil {
		return Metadata{}, fmt.Errorf("read %s: %w", path, err)
	}
	return m, nil
}
