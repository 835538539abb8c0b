package shardclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ContextFile says where a cluster is and who the caller is there, so that
// commands need no flags. It is JSON; unknown fields are an error.
type ContextFile struct {
	// ClusterID, if set, must be the cluster of the identity.
	ClusterID string `json:"cluster_id"`
	// Tenant, if set, must be the tenant of the identity.
	Tenant string `json:"tenant"`
	// IdentityDir is the folder with ca.crt, identity.crt and identity.key. A
	// relative path starts at the folder of the context file.
	IdentityDir string `json:"identity_dir"`
	// Servers has an address, or several with commas between them, per shard.
	Servers map[string]string `json:"servers"`
	// LeaderFile is a file with the addresses of the leader of Shard, which is
	// read at every dial and goes before Servers; empty: none. A relative path
	// starts at the folder of the context file.
	LeaderFile string `json:"leader_file,omitempty"`
	// Shard is the one that commands are about unless they name another; empty:
	// the only one in Servers.
	Shard string `json:"shard,omitempty"`
}

// ReadContextFile reads a context file and makes its paths absolute.
func ReadContextFile(path string) (ContextFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return ContextFile{}, fmt.Errorf("read context file: %w", err)
	}
	var c ContextFile
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return ContextFile{}, fmt.Errorf("context file %s: %w", path, err)
	}
	if decoder.More() {
		return ContextFile{}, fmt.Errorf("context file %s: there is text after the JSON object", path)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return ContextFile{}, fmt.Errorf("context file %s: %w", path, err)
	}
	for _, p := range []*string{&c.IdentityDir, &c.LeaderFile} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	return c, nil
}

// leaderFile is what the leader of a shard on this box writes when it takes over.
type leaderFile struct {
	Operator string `json:"operator"`
}

// readLeaderFile returns the operator address in a leader file.
func readLeaderFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var l leaderFile
	if err := json.Unmarshal(data, &l); err != nil {
		return "", fmt.Errorf("leader file %s: %w", path, err)
	}
	if l.Operator == "" {
		return "", errors.New("leader file " + path + ": it names no operator address")
	}
	return l.Operator, nil
}
