package contexts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Context says where a cluster is and which identity is used there, so that
// commands need no flags.
type Context struct {
	// ClusterID, if set, must be the cluster of the identity.
	ClusterID string `json:"cluster_id,omitempty"`
	// Tenant, if set, must be the tenant of the identity.
	Tenant string `json:"tenant,omitempty"`
	// IdentityDir is the folder with ca.crt, identity.crt and identity.key. A
	// relative path starts at the folder of the file that it stands in.
	IdentityDir string `json:"identity_dir,omitempty"`
	// Servers has an address, or several with commas between them, per shard.
	Servers map[string]string `json:"servers,omitempty"`
	// LeaderFile is a file with the addresses of the leader of Shard, which is
	// read at every dial and goes before Servers; empty: none. A relative path
	// starts at the folder of the file that it stands in.
	LeaderFile string `json:"leader_file,omitempty"`
	// Shard is the one that commands are about unless they name another; empty:
	// the only one in Servers.
	Shard string `json:"shard,omitempty"`
}

// ReadFile reads a file that holds one context, in JSON. Unknown fields are an
// error; the paths that it returns are absolute.
func ReadFile(path string) (Context, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Context{}, fmt.Errorf("read context file: %w", err)
	}
	var c Context
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return Context{}, fmt.Errorf("context file %s: %w", path, err)
	}
	if decoder.More() {
		return Context{}, fmt.Errorf("context file %s: there is text after the JSON object", path)
	}
	if err := makeAbsolute(filepath.Dir(path), &c.IdentityDir, &c.LeaderFile); err != nil {
		return Context{}, fmt.Errorf("context file %s: %w", path, err)
	}
	return c, nil
}

// makeAbsolute lets relative paths begin at dir. Empty ones stay as they are.
func makeAbsolute(dir string, paths ...*string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	return nil
}
